import type { Shape } from "./looks";

type Pen = Pick<CanvasRenderingContext2D, "moveTo" | "lineTo" | "arc" | "rect" | "closePath">;

/** Adds the shape of a state to the path. `rejected` is a cross and `making` a ring, and both are drawn as lines. */
export function addShape(pen: Pen, shape: Shape, x: number, y: number, radius: number): void {
  switch (shape) {
    case "active":
    case "making":
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      return;
    case "winner":
      polygon(pen, [
        [x, y - radius * 1.25],
        [x + radius * 1.25, y],
        [x, y + radius * 1.25],
        [x - radius * 1.25, y],
      ]);
      return;
    case "failing":
      polygon(pen, [
        [x, y - radius],
        [x + radius, y + radius * 0.8],
        [x - radius, y + radius * 0.8],
      ]);
      return;
    case "surplus":
      pen.rect(x - radius * 0.7, y - radius * 0.7, radius * 1.4, radius * 1.4);
      return;
    case "rejected":
      pen.moveTo(x - radius * 0.8, y - radius * 0.8);
      pen.lineTo(x + radius * 0.8, y + radius * 0.8);
      pen.moveTo(x + radius * 0.8, y - radius * 0.8);
      pen.lineTo(x - radius * 0.8, y + radius * 0.8);
  }
}

function polygon(pen: Pen, points: readonly [number, number][]): void {
  points.forEach(([x, y], place) => (place === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
  pen.closePath();
}
