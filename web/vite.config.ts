import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` talks to the control plane that CALLSHEET_URL names.
const server = process.env.CALLSHEET_URL ?? "http://127.0.0.1:8400";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: {
      "@client": fileURLToPath(new URL("../clients/typescript/src", import.meta.url)),
      "@": fileURLToPath(new URL("./src", import.meta.url)),
    },
  },
  build: {
    outDir: "../src/callsheet/web/static",
    emptyOutDir: true,
    // Data URLs would need a wider content security policy.
    assetsInlineLimit: 0,
    // Tells the budget check which files a page loads.
    manifest: "manifest.json",
    chunkSizeWarningLimit: 700,
    reportCompressedSize: false,
  },
  server: {
    // The core of the TypeScript client is outside of this folder.
    fs: { allow: [".."] },
    proxy: { "/api": server, "/storage": server, "/docs": server, "/openapi.json": server },
  },
});
