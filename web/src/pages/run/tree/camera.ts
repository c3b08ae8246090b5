// What part of the tree the window shows. Pure.
import type { Rect } from "./visible";

export interface Camera {
  /** The point of the tree at the top left of the window. */
  x: number;
  y: number;
  /** Pixels for one unit of the tree. */
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export const LARGEST = 2.5;
const PADDING = 24;
// On both sides, so that what is in the middle stays there: the buttons are on the right.
const BUTTONS = 56;

/** All of it in the window, and never larger than life. */
export function fit(content: Size, window: Size): Camera {
  const scale = Math.min(
    1,
    (window.width - 2 * BUTTONS) / Math.max(content.width, 1),
    (window.height - 2 * PADDING) / Math.max(content.height, 1),
  );
  const safe = Math.max(scale, 0.002);
  return { x: (content.width - window.width / safe) / 2, y: (content.height - window.height / safe) / 2, scale: safe };
}

/** The point under the pointer stays under it. */
export function zoomAt(camera: Camera, pointX: number, pointY: number, factor: number, least: number): Camera {
  const scale = Math.min(LARGEST, Math.max(least, camera.scale * factor));
  return {
    scale,
    x: camera.x + pointX / camera.scale - pointX / scale,
    y: camera.y + pointY / camera.scale - pointY / scale,
  };
}

export function pan(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale };
}

/** Moves only as far as it must, so that the point is well inside the window. */
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
