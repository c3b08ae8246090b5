// The visible window of a tree: pointers, wheel and keys move a camera, and each change draws the canvas.
import { type RefObject, useEffect, useMemo, useRef } from "react";
import { type Camera, fit, pan, reveal, type Size, zoomAt } from "./camera";
import { draw, isNear, type Scene } from "./draw";
import { followPointers } from "./pointers";

export interface TreeView {
  zoom: (factor: number) => void;
  fit: () => void;
  /** Moves the window until a point of the tree is in its middle. */
  center: (x: number, y: number) => void;
}

interface Options {
  canvas: RefObject<HTMLCanvasElement | null>;
  scene: Scene;
  onSelect: (id: string | undefined) => void;
  /** Candidates whose images are visible now. */
  onNear: (ids: string[]) => void;
  /** Runs after each frame, for the map. */
  onFrame: (camera: Camera, size: Size) => void;
}

/** Also returns a function that draws the same again, for an image that has loaded. */
export function useTreeView(options: Options): TreeView & { redraw: () => void } {
  const latest = useRef(options);
  latest.current = options;
  const state = useRef({ camera: { x: 0, y: 0, scale: 1 }, size: { width: 0, height: 0 }, frame: 0, isFitted: false });

  const view = useMemo(() => {
    const paint = () => {
      state.current.frame = 0;
      const { canvas, scene, onNear, onFrame } = latest.current;
      const context = canvas.current?.getContext("2d");
      const { camera, size } = state.current;
      if (!context || size.width === 0) return;
      const drawn = draw(context, scene, camera, size, window.devicePixelRatio || 1);
      if (isNear(camera, drawn.length))
        onNear(drawn.map((place) => scene.layout.placed[place]?.node?.id).filter((id) => id !== undefined));
      onFrame(camera, size);
    };
    const redraw = () => {
      if (state.current.frame === 0) state.current.frame = requestAnimationFrame(paint);
    };
    const look = (camera: Camera) => {
      state.current.camera = camera;
      redraw();
    };
    const all = () => fit(latest.current.scene.layout, state.current.size);
    const least = () => Math.min(all().scale * 0.6, 0.2);
    return {
      redraw,
      look,
      all,
      least,
      zoom: (factor: number) => {
        state.current.isFitted = false;
        look(
          zoomAt(state.current.camera, state.current.size.width / 2, state.current.size.height / 2, factor, least()),
        );
      },
      fit: () => {
        state.current.isFitted = true;
        look(all());
      },
      center: (x: number, y: number) => {
        const { camera, size } = state.current;
        state.current.isFitted = false;
        look({ ...camera, x: x - size.width / camera.scale / 2, y: y - size.height / camera.scale / 2 });
      },
    };
  }, []);

  useEffect(() => {
    const canvas = latest.current.canvas.current;
    if (canvas === null) return;
    const measure = () => {
      const { width, height } = canvas.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      const isFirst = state.current.size.width === 0;
      state.current.size = { width, height };
      if (isFirst || state.current.isFitted) view.fit();
      else view.redraw();
    };
    const resized = new ResizeObserver(measure);
    resized.observe(canvas);
    const letGo = followPointers(canvas, {
      onPan: (dx, dy) => {
        state.current.isFitted = false;
        view.look(pan(state.current.camera, dx, dy));
      },
      onZoom: (x, y, factor) => {
        state.current.isFitted = false;
        view.look(zoomAt(state.current.camera, x, y, factor, view.least()));
      },
      onTap: (x, y) => {
        const { camera } = state.current;
        const { grid, layout } = latest.current.scene;
        const place = grid.at(camera.x + x / camera.scale, camera.y + y / camera.scale, 6 / camera.scale);
        latest.current.onSelect(place === null ? undefined : layout.placed[place]?.node?.id);
      },
    });
    return () => {
      resized.disconnect();
      letGo();
      cancelAnimationFrame(state.current.frame);
      state.current.frame = 0;
    };
  }, [view]);

  const { scene } = options;
  useEffect(() => {
    // A fitted tree stays fitted while it grows. A user who looks at a part keeps that part.
    if (state.current.isFitted && state.current.size.width > 0) view.fit();
    else view.redraw();
  }, [scene, view]);

  const { selected, layout } = scene;
  const chosen = selected === undefined ? undefined : layout.placed[layout.index.get(selected) ?? -1];
  const [x, y] = [chosen?.x, chosen?.y];
  useEffect(() => {
    if (x === undefined || y === undefined || state.current.size.width === 0) return;
    const moved = reveal(state.current.camera, x, y, state.current.size);
    if (moved.x !== state.current.camera.x || moved.y !== state.current.camera.y) {
      state.current.isFitted = false;
      view.look(moved);
    }
  }, [selected, x, y, view]);
  return view;
}
