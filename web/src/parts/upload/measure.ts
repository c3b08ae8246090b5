// Reads properties of a chosen file, if the browser can.
import type { FileKind } from "../media";
import type { Measured } from "./acceptance";

const PATIENCE_MS = 4_000;

/** null if the browser cannot read the format. The server may still be able to. */
export function measure(url: string, kind: FileKind): Promise<Measured> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({}), PATIENCE_MS);
    const done = (found: Measured) => {
      clearTimeout(timer);
      resolve(found);
    };
    if (kind === "image") {
      const image = new Image();
      image.onload = () => done({ width: image.naturalWidth, height: image.naturalHeight });
      image.onerror = () => done({});
      image.src = url;
      return;
    }
    const media = document.createElement(kind);
    media.preload = "metadata";
    media.muted = true;
    media.onloadedmetadata = () => {
      const seconds = Number.isFinite(media.duration) ? media.duration : undefined;
      done(
        media instanceof HTMLVideoElement
          ? { width: media.videoWidth || undefined, height: media.videoHeight || undefined, seconds }
          : { seconds },
      );
    };
    media.onerror = () => done({});
    media.src = url;
  });
}
