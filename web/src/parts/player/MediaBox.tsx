import type { CSSProperties, ReactNode, Ref } from "react";
import { classes } from "@/design";

interface Props {
  /** Width by height. The box has its size before anything has loaded. */
  ratio: number;
  /** The most of the window's height that it takes, with controls left out. */
  maxHeight?: string;
  /** Beside media of another shape: black as in a cinema, or as quiet as the page. */
  isDark?: boolean;
  controls?: ReactNode;
  ref?: Ref<HTMLDivElement>;
  className?: string;
  children: ReactNode;
}

// Less has no room for them: media that are narrower have bars beside them.
const CONTROLS_WIDTH = "17rem";

/** The frame around media of one shape: portrait media are as high as fits, not as wide as the page. */
export function MediaBox({ ratio, maxHeight = "68dvh", isDark = true, controls, ref, className, children }: Props) {
  const style = {
    "--ratio": ratio,
    "--most": maxHeight,
    "--least": controls ? CONTROLS_WIDTH : "0px",
  } as CSSProperties;
  return (
    <div
      ref={ref}
      style={style}
      className={classes("media-box panel mx-auto flex flex-col overflow-hidden", className)}
    >
      <div
        className={classes("media-stage relative w-full grow overflow-hidden", isDark ? "bg-[#0c0c0b]" : "bg-hover")}
      >
        {children}
      </div>
      {controls}
    </div>
  );
}
