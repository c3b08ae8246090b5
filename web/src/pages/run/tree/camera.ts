// Camera of the tree: the part that the window shows. Pure.
import type { Rect } from "./visible";

export interface Camera {
  /** Point of the tree at the top left of the window. */
  x: number;
  y: number;
  /** Pixels per unit of the tree. */
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export const MAX_SCALE = 2.5;
const PADDING = 24;
// Margin on both sides, so the centre stays in the middle. The buttons are on the right.
const BUTTONS = 56;

/** Fits the whole tree into the window, but never enlarges it. */
export function fit(content: Size, window: Size): Camera {
  const scale = Math.min(
    1,
    (window.width - 2 * BUTTONS) / Math.max(content.width, 1),
    (window.height - 2 * PADDING) / Math.max(content.height, 1),
  );
  const safe = Math.max(scale, 0.002);
  return { x: (content.width - window.width / safe) / 2, y: (content.height - window.height / safe) / 2, scale: safe };
}

/** The point under the pointer keeps its position. */
export function zoomAt(camera: Camera, pointX: number, pointY: number, factor: number, least: number): Camera {
  const scale = Math.min(MAX_SCALE, Math.max(least, camera.scale * factor));
  return {
    scale,
    x: camera.x + pointX / camera.scale - pointX / scale,
    y: camera.y + pointY / camera.scale - pointY / scale,
  };
}

export function pan(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale };
}

/** Moves as little as possible until the point is well inside the window. */
export function reveal(camera: Camera, x: number, y: number, window: Size, margin = 80): Camera {
  const shown = shownBy(camera, window);
  const space = margin / camera.scale;
  const dx = x < shown.left + space ? x - shown.left - space : x > shown.right - space ? x - shown.right + space : 0;
  const dy = y < shown.top + space ? y - shown.top - space : y > shown.bottom - space ? y - shown.bottom + space : 0;
  return { ...camera, x: camera.x + dx, y: camera.y + dy };
}

export function shownBy(camera: Camera, window: Size): Rect {
  return {
    left: camera.x,
    top: camera.y,
    right: camera.x + window.width / camera.scale,
    bottom: camera.y + window.height / camera.scale,
  };
}
