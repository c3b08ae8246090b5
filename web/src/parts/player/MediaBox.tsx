import type { CSSProperties, ReactNode, Ref } from "react";
import { classes } from "@/design";

interface Props {
  /** Width by height. The box has its size before anything has loaded. */
  ratio: number;
  /** Maximum share of the window's height, without controls. */
  maxHeight?: string;
  /** Background beside media of another shape: black as in a cinema, or the colour of the page. */
  isDark?: boolean;
  controls?: ReactNode;
  ref?: Ref<HTMLDivElement>;
  className?: string;
  children: ReactNode;
}

// A smaller box has no room for the controls, so narrower media get bars beside them.
const CONTROLS_WIDTH = "17rem";

/** The frame around media of one shape. Portrait media use the available height, not the width of the page. */
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
