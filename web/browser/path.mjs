// Prints where the Chromium of this folder is, unpacked; for machines that have none of their own.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
