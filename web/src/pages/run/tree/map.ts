// Small map of the whole tree: positions of its points, and the visible window. Pure.
import { type Camera, type Size, shownBy } from "./camera";

export const MAP: Size = { width: 168, height: 112 };
const PADDING = 6;
// Minimum size of the frame, so it stays visible for a small part of a large tree.
const MIN_SIZE = 4;
const BORDER = 2;

/** Scale and position of the tree on the map. */
export interface TreeMap {
  scale: number;
  left: number;
  top: number;
}

export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function mapOf(tree: Size): TreeMap {
  const scale = Math.min(
    (MAP.width - 2 * PADDING) / Math.max(tree.width, 1),
    (MAP.height - 2 * PADDING) / Math.max(tree.height, 1),
  );
  return { scale, left: (MAP.width - tree.width * scale) / 2, top: (MAP.height - tree.height * scale) / 2 };
}

/** The window on the map; null if the window shows the whole tree and needs no map. */
export function frameOf(tree: Size, map: TreeMap, camera: Camera, window: Size): Frame | null {
  const shown = shownBy(camera, window);
  if (shown.left <= 0 && shown.top <= 0 && shown.right >= tree.width && shown.bottom >= tree.height) return null;
  const [x, y] = [
    clamp(map.left + shown.left * map.scale, MAP.width),
    clamp(map.top + shown.top * map.scale, MAP.height),
  ];
  const [right, bottom] = [
    clamp(map.left + shown.right * map.scale, MAP.width),
    clamp(map.top + shown.bottom * map.scale, MAP.height),
  ];
  return { x, y, width: Math.max(right - x, MIN_SIZE), height: Math.max(bottom - y, MIN_SIZE) };
}

/** The point of the tree under a point of the map. */
export function pointOf(map: TreeMap, x: number, y: number): { x: number; y: number } {
  return { x: (x - map.left) / map.scale, y: (y - map.top) / map.scale };
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most - BORDER));
}
