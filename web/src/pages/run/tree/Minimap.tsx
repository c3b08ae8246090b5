import { useEffect, useImperativeHandle, useRef, type Ref } from "react";
import { treeTexts } from "@/texts/runs";
import { shownBy, type Camera, type Size } from "./camera";
import type { Scene } from "./draw";
import { MIDDLE } from "./looks";

export interface MinimapHandle {
  /** Draws the window that the camera shows. */
  show: (camera: Camera, size: Size) => void;
}

interface Props {
  ref: Ref<MinimapHandle>;
  scene: Omit<Scene, "selected" | "imageOf">;
  onCenter: (x: number, y: number) => void;
}

const WIDTH = 168;
const HEIGHT = 112;
const PADDING = 6;

/** The whole tree, drawn once for each change of it; a frame only moves the rectangle. */
export function Minimap({ ref, scene, onCenter }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const { layout } = scene;
  const scale = Math.min((WIDTH - 2 * PADDING) / Math.max(layout.width, 1), (HEIGHT - 2 * PADDING) / Math.max(layout.height, 1));
  const left = (WIDTH - layout.width * scale) / 2;
  const top = (HEIGHT - layout.height * scale) / 2;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    context.canvas.width = WIDTH * ratio;
    context.canvas.height = HEIGHT * ratio;
    context.scale(ratio, ratio);
    const size = Math.max(1, Math.min(5, 90 * scale));
    layout.placed.forEach((one, place) => {
      const isFilled = one.node?.status === "active";
      context.fillStyle = isFilled ? (scene.look.ratings[scene.buckets[place] ?? MIDDLE] ?? scene.look.muted) : scene.look.line;
      context.globalAlpha = isFilled ? 1 : 0.4;
      context.fillRect(left + one.x * scale - size / 2, top + one.y * scale - size / 2, size, size);
    });
  }, [layout, scene, scale, left, top]);
  useImperativeHandle(ref, () => ({
    show: (camera, size) => {
      const element = frame.current;
      if (!element) return;
      const shown = shownBy(camera, size);
      // A window that shows everything needs no map.
      const isWhole = shown.left <= 0 && shown.top <= 0 && shown.right >= layout.width && shown.bottom >= layout.height;
      if (place.current) place.current.style.visibility = isWhole ? "hidden" : "visible";
      const [x1, y1] = [clamp(left + shown.left * scale, WIDTH), clamp(top + shown.top * scale, HEIGHT)];
      const [x2, y2] = [clamp(left + shown.right * scale, WIDTH), clamp(top + shown.bottom * scale, HEIGHT)];
      element.style.transform = `translate(${x1}px, ${y1}px)`;
      element.style.width = `${Math.max(x2 - x1, 4)}px`;
      element.style.height = `${Math.max(y2 - y1, 4)}px`;
    },
  }));
  const onPoint = (event: React.PointerEvent) => {
    if (event.buttons !== 1) return;
    const box = event.currentTarget.getBoundingClientRect();
    onCenter((event.clientX - box.left - left) / scale, (event.clientY - box.top - top) / scale);
  };
  return (
    <div
      ref={place}
      className="absolute bottom-3 left-3 cursor-pointer touch-none overflow-hidden rounded-s border bg-panel/90 shadow-panel max-sm:hidden"
      style={{ width: WIDTH, height: HEIGHT }}
      onPointerDown={onPoint}
      onPointerMove={onPoint}
    >
      <canvas ref={canvas} role="img" aria-label={treeTexts.minimap} style={{ width: WIDTH, height: HEIGHT }} />
      <div ref={frame} aria-hidden className="pointer-events-none absolute top-0 left-0 rounded-[3px] border-2 border-accent" />
    </div>
  );
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most - 2));
}
