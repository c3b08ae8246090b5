// Finds the visible nodes and lines with a grid of cells, so drawing never looks at the others. Pure.
import { COLUMN, type Layout, NODE_HEIGHT, NODE_WIDTH } from "./layout";

const CELL = 1024;

export interface Rect {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Visible {
  nodes: number[];
  /** Lines, each named by the index of its child. */
  lines: number[];
}

export class Grid {
  private readonly nodes = new Map<number, number[]>();
  private readonly lines = new Map<number, number[]>();
  private readonly columns: number;
  private readonly rows: number;

  constructor(private readonly layout: Layout) {
    this.columns = Math.ceil((layout.width + COLUMN) / CELL) + 1;
    this.rows = Math.ceil((layout.height + NODE_HEIGHT) / CELL) + 1;
    layout.placed.forEach((one, place) => {
      this.put(this.nodes, place, {
        left: one.x - NODE_WIDTH / 2,
        right: one.x + NODE_WIDTH / 2,
        top: one.y - NODE_HEIGHT / 2,
        bottom: one.y + NODE_HEIGHT / 2,
      });
      const parent = layout.placed[one.parent];
      if (parent)
        this.put(this.lines, place, {
          left: parent.x,
          right: one.x,
          top: Math.min(parent.y, one.y),
          bottom: Math.max(parent.y, one.y),
        });
    });
  }

  visible(rect: Rect): Visible {
    return { nodes: this.within(this.nodes, rect), lines: this.within(this.lines, rect) };
  }

  /** The nearest node at a point, at most `reach` away from its edge. */
  at(x: number, y: number, reach: number): number | null {
    let best: number | null = null;
    let nearest = Infinity;
    for (const place of this.within(this.nodes, {
      left: x - reach,
      right: x + reach,
      top: y - reach,
      bottom: y + reach,
    })) {
      const one = this.layout.placed[place];
      if (!one?.node) continue;
      const away = Math.max(Math.abs(x - one.x) - NODE_WIDTH / 2, Math.abs(y - one.y) - NODE_HEIGHT / 2, 0);
      const middle = Math.hypot(x - one.x, y - one.y);
      if (away <= reach && middle < nearest) {
        nearest = middle;
        best = place;
      }
    }
    return best;
  }

  private put(cells: Map<number, number[]>, place: number, rect: Rect): void {
    for (const cell of this.cells(rect)) {
      const found = cells.get(cell);
      if (found) found.push(place);
      else cells.set(cell, [place]);
    }
  }

  private within(cells: Map<number, number[]>, rect: Rect): number[] {
    const touched = this.cells(rect);
    const [only] = touched;
    if (touched.length === 1 && only !== undefined) return cells.get(only) ?? [];
    const found = new Set<number>();
    for (const cell of touched) for (const place of cells.get(cell) ?? []) found.add(place);
    return [...found];
  }

  private cells(rect: Rect): number[] {
    const [left, right] = [clamp(rect.left, this.columns), clamp(rect.right, this.columns)];
    const [top, bottom] = [clamp(rect.top, this.rows), clamp(rect.bottom, this.rows)];
    const found: number[] = [];
    for (let row = top; row <= bottom; row += 1)
      for (let column = left; column <= right; column += 1) found.push(row * this.columns + column);
    return found;
  }
}

function clamp(at: number, most: number): number {
  return Math.max(0, Math.min(Math.floor(at / CELL), most - 1));
}
