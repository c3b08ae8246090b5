import type { ReactNode } from "react";
import { kindOf } from "./media";

interface Props {
  /** URL of a thumbnail. Without one, the browser shows the first frame of a video. */
  still: string | null | undefined;
  file: { url?: string | null; mime_type: string } | null | undefined;
  /** Empty if words beside the image say the same. */
  alt: string;
  className: string;
  /** Replaces a missing image. */
  children: ReactNode;
}

/** A small image of a file that fills its box. */
export function Still({ still, file, alt, className, children }: Props) {
  const style = `absolute inset-0 size-full object-cover ${className}`;
  if (still) return <img src={still} alt={alt} loading="lazy" decoding="async" draggable={false} className={style} />;
  if (!file?.url || kindOf(file.mime_type) !== "video") return children;
  return (
    <video
      src={`${file.url}#t=0.1`}
      muted
      playsInline
      preload="metadata"
      tabIndex={-1}
      {...(alt ? { "aria-label": alt } : { "aria-hidden": true })}
      className={style}
    />
  );
}
