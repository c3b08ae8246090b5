import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Pure functions only: what needs a browser is tested in one (tests/browser at the top).
export default defineConfig({
  resolve: {
    alias: {
      "@client": fileURLToPath(new URL("../clients/typescript/src", import.meta.url)),
      "@": fileURLToPath(new URL("./src", import.meta.url)),
    },
  },
  test: { include: ["tests/**/*.test.ts"], environment: "node", pool: "threads", isolate: false },
});
