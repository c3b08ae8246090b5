import { useEffect, useRef } from "react";
import { treeTexts } from "@/texts/runs";
import type { Look } from "./draw";
import { MIDDLE, SHAPES, type Shape } from "./looks";
import { addShape } from "./shapes";

/** Meaning of colours and shapes, drawn with the code that draws the tree. */
export function TreeLegend({ look }: { look: Look }) {
  return (
    <div
      className="flex flex-wrap items-center gap-x-5 gap-y-2 text-xs text-muted"
      role="group"
      aria-label={treeTexts.legend}
    >
      <span className="flex items-center gap-1.5">
        {treeTexts.rating}: {treeTexts.low}
        <span aria-hidden className="flex">
          {look.ratings.map((colour, bucket) => (
            <span
              key={bucket}
              className="h-2.5 w-3.5 first:rounded-l-full last:rounded-r-full"
              style={{ background: colour }}
            />
          ))}
        </span>
        {treeTexts.high}
      </span>
      {SHAPES.map((shape) => (
        <span key={shape} className="flex items-center gap-1.5">
          <Glyph shape={shape} look={look} />
          {treeTexts.shapes[shape]}
        </span>
      ))}
    </div>
  );
}

const SIZE = 14;

function Glyph({ shape, look }: { shape: Shape; look: Look }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    context.canvas.width = context.canvas.height = SIZE * ratio;
    context.scale(ratio, ratio);
    context.beginPath();
    addShape(context, shape, SIZE / 2, SIZE / 2, 4.6);
    context.lineWidth = 1.5;
    context.strokeStyle = look.muted;
    context.fillStyle = shape === "winner" ? look.accent : (look.ratings[MIDDLE] ?? look.muted);
    if (shape === "active" || shape === "winner" || shape === "failing") context.fill();
    else context.stroke();
  }, [shape, look]);
  return <canvas ref={canvas} aria-hidden style={{ width: SIZE, height: SIZE }} />;
}
