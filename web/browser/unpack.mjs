// Unpacks the Chromium of this folder into ../.build/chromium, with the libraries and fonts that it needs.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const target = fileURLToPath(new URL("../.build/chromium", import.meta.url));
await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
// The package unpacks into the temporary directory, and its libraries only where it believes to be in that service.
process.env.TMPDIR = target;
process.env.AWS_LAMBDA_JS_RUNTIME = "nodejs24.x";
const { default: chromium } = await import("@sparticuz/chromium");
await chromium.executablePath();
// Its own names folders of that service; without any font the browser ends with the first text it draws.
await writeFile(
  `${target}/fonts/fonts.conf`,
  `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${target}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>${target}/fonts-cache</cachedir>
</fontconfig>
`,
);
