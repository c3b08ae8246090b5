import { Maximize, Minus, Plus } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import { Button } from "@/design";
import { treeTexts } from "@/texts/runs";
import type { Scene } from "./draw";
import { NodeImages } from "./images";
import { Minimap, type MinimapHandle } from "./Minimap";
import { type Direction, neighbour } from "./neighbours";
import { useTreeView } from "./useTreeView";

interface Props {
  runId: string;
  scene: Omit<Scene, "selected" | "imageOf">;
  count: number;
  selected: string | undefined;
  /** A screen reader announces this text when the selection moves. */
  selectedText: string;
  onSelect: (id: string | undefined) => void;
}

const ARROWS: Record<string, Direction> = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const ZOOM = 1.4;

export function TreeCanvas({ runId, scene, count, selected, selectedText, onSelect }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<MinimapHandle>(null);
  const images = useMemo(() => new NodeImages(runId, () => redraw.current()), [runId]);
  const redraw = useRef<() => void>(() => undefined);
  useEffect(() => () => images.stop(), [images]);
  const whole = useMemo<Scene>(
    () => ({ ...scene, selected, imageOf: (id) => images.get(id) }),
    [scene, selected, images],
  );
  const view = useTreeView({
    canvas,
    scene: whole,
    onSelect,
    onNear: (ids) => images.want(ids),
    onFrame: (camera, size) => map.current?.show(camera, size),
  });
  redraw.current = view.redraw;

  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const direction = ARROWS[event.key];
    if (direction) {
      const next = neighbour(scene.layout, selected, direction);
      if (next !== null) onSelect(next);
    } else if (event.key === "+" || event.key === "=") view.zoom(ZOOM);
    else if (event.key === "-") view.zoom(1 / ZOOM);
    else if (event.key === "0") view.fit();
    else if (event.key === "Escape" && selected !== undefined) onSelect(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <div className="panel relative h-[max(20rem,calc(100dvh-26rem))] overflow-hidden">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={treeTexts.label(count)}
        onKeyDown={onKeyDown}
        className="absolute inset-0 size-full cursor-grab touch-none focus-visible:outline-offset-[-3px] active:cursor-grabbing"
      />
      <div className="absolute top-3 right-3 grid gap-1">
        <Button
          size="icon"
          aria-label={treeTexts.zoomIn}
          title={treeTexts.zoomIn}
          icon={<Plus size={18} />}
          onClick={() => view.zoom(ZOOM)}
        />
        <Button
          size="icon"
          aria-label={treeTexts.zoomOut}
          title={treeTexts.zoomOut}
          icon={<Minus size={18} />}
          onClick={() => view.zoom(1 / ZOOM)}
        />
        <Button
          size="icon"
          aria-label={treeTexts.fit}
          title={treeTexts.fit}
          icon={<Maximize size={18} />}
          onClick={view.fit}
        />
      </div>
      <Minimap ref={map} scene={scene} onCenter={view.center} />
      <p className="sr-only" role="status">
        {selectedText}
      </p>
    </div>
  );
}
