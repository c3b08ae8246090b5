import { type Ref, useEffect, useImperativeHandle, useMemo, useRef } from "react";
import { treeTexts } from "@/texts/runs";
import type { Camera, Size } from "./camera";
import type { Scene } from "./draw";
import { MIDDLE } from "./looks";
import { frameOf, MAP, mapOf, pointOf } from "./map";

export interface MinimapHandle {
  /** Draws the visible window on the map. */
  show: (camera: Camera, size: Size) => void;
}

interface Props {
  ref: Ref<MinimapHandle>;
  scene: Omit<Scene, "selected" | "imageOf">;
  onCenter: (x: number, y: number) => void;
}

/** The whole tree, drawn once per change. Each frame only moves the rectangle. */
export function Minimap({ ref, scene, onCenter }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const { layout } = scene;
  const map = useMemo(() => mapOf(layout), [layout]);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    context.canvas.width = MAP.width * ratio;
    context.canvas.height = MAP.height * ratio;
    context.scale(ratio, ratio);
    const size = Math.max(1, Math.min(5, 90 * map.scale));
    layout.placed.forEach((one, place) => {
      const isFilled = one.node?.status === "active";
      context.fillStyle = isFilled
        ? (scene.look.ratings[scene.buckets[place] ?? MIDDLE] ?? scene.look.muted)
        : scene.look.line;
      context.globalAlpha = isFilled ? 1 : 0.4;
      context.fillRect(map.left + one.x * map.scale - size / 2, map.top + one.y * map.scale - size / 2, size, size);
    });
  }, [layout, scene, map]);
  useImperativeHandle(ref, () => ({
    show: (camera, size) => {
      const element = frame.current;
      if (!element) return;
      const shown = frameOf(layout, map, camera, size);
      if (place.current) place.current.style.visibility = shown === null ? "hidden" : "visible";
      if (shown === null) return;
      element.style.transform = `translate(${shown.x}px, ${shown.y}px)`;
      element.style.width = `${shown.width}px`;
      element.style.height = `${shown.height}px`;
    },
  }));
  const onPoint = (event: React.PointerEvent) => {
    if (event.buttons !== 1) return;
    const box = event.currentTarget.getBoundingClientRect();
    const point = pointOf(map, event.clientX - box.left, event.clientY - box.top);
    onCenter(point.x, point.y);
  };
  return (
    <div
      ref={place}
      className="absolute bottom-3 left-3 cursor-pointer touch-none overflow-hidden rounded-s border bg-panel/90 shadow-panel max-sm:hidden"
      style={MAP}
      onPointerDown={onPoint}
      onPointerMove={onPoint}
    >
      <canvas ref={canvas} role="img" aria-label={treeTexts.minimap} style={MAP} />
      <div
        ref={frame}
        aria-hidden
        className="pointer-events-none absolute top-0 left-0 rounded-[3px] border-2 border-accent"
      />
    </div>
  );
}
