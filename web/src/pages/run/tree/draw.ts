// Draws the visible part of a tree on a canvas. A distant node is a small shape, a near one shows its image.
import { type Camera, type Size, shownBy } from "./camera";
import { COLUMN, HEAD, type Layout, NODE_HEIGHT, NODE_WIDTH, type Placed, ROW } from "./layout";
import { BUCKETS, MIDDLE, type Shape } from "./looks";
import { addShape } from "./shapes";
import { shortened } from "./shortened";
import type { Grid } from "./visible";

export interface Look {
  /** Colours per bucket of the rating. */
  ratings: readonly string[];
  panel: string;
  hover: string;
  line: string;
  muted: string;
  text: string;
  accent: string;
  font: string;
}

export interface Scene {
  layout: Layout;
  grid: Grid;
  shapes: readonly Shape[];
  buckets: readonly number[];
  stepNames: readonly string[];
  look: Look;
  selected: string | undefined;
  /** The loaded image of a candidate. */
  imageOf: (id: string) => HTMLImageElement | null;
}

/** From this width in pixels on, a node shows its image. Few nodes show it earlier. */
const NEAR_PIXELS = 34;
const NEAR_PIXELS_OF_FEW = 20;
const FEW = 200;
const TEXT_PIXELS = 64;
const RADIUS = 8;

export function isNear(camera: Camera, count: number): boolean {
  return NODE_WIDTH * camera.scale >= (count <= FEW ? NEAR_PIXELS_OF_FEW : NEAR_PIXELS);
}

/** Returns the indexes of the drawn nodes. */
export function draw(
  context: CanvasRenderingContext2D,
  scene: Scene,
  camera: Camera,
  window: Size,
  ratio: number,
): number[] {
  const { look } = scene;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, window.width, window.height);
  context.setTransform(
    camera.scale * ratio,
    0,
    0,
    camera.scale * ratio,
    -camera.x * camera.scale * ratio,
    -camera.y * camera.scale * ratio,
  );
  const { nodes, lines } = scene.grid.visible(shownBy(camera, window));
  const isClose = isNear(camera, nodes.length);
  drawLines(context, scene, lines, camera, isClose);
  if (isClose) for (const place of nodes) drawTile(context, scene, place, camera);
  else drawShapes(context, scene, nodes, camera);
  drawStepNames(context, scene, camera);
  const selected = scene.selected === undefined ? undefined : scene.layout.index.get(scene.selected);
  const chosen = selected === undefined ? undefined : scene.layout.placed[selected];
  if (chosen) drawSelection(context, chosen, camera, look);
  return nodes;
}

function drawLines(
  context: CanvasRenderingContext2D,
  scene: Scene,
  lines: readonly number[],
  camera: Camera,
  isCurved: boolean,
): void {
  // From a distance a straight line looks like a curve and is faster.
  const { placed } = scene.layout;
  context.strokeStyle = scene.look.line;
  context.lineWidth = Math.max(1, 1 / camera.scale);
  context.beginPath();
  for (const place of lines) {
    const child = placed[place];
    const parent = child && placed[child.parent];
    if (!child || !parent) continue;
    const [from, to] = isCurved ? [parent.x + NODE_WIDTH / 2, child.x - NODE_WIDTH / 2] : [parent.x, child.x];
    context.moveTo(from, parent.y);
    if (isCurved) context.bezierCurveTo((from + to) / 2, parent.y, (from + to) / 2, child.y, to, child.y);
    else context.lineTo(to, child.y);
  }
  context.stroke();
}

/** One path draws all nodes of a colour, because style changes cost more than nodes. */
function drawShapes(context: CanvasRenderingContext2D, scene: Scene, nodes: readonly number[], camera: Camera): void {
  const radius = Math.max(ROW * 0.36, 1.6 / camera.scale);
  const isTiny = radius * camera.scale < 3;
  const filled: number[][] = Array.from({ length: BUCKETS }, () => []);
  const hollow: number[] = [];
  for (const place of nodes) {
    const shape = scene.shapes[place];
    if (shape === "active" || shape === "winner" || shape === "failing")
      filled[scene.buckets[place] ?? MIDDLE]?.push(place);
    else hollow.push(place);
  }
  filled.forEach((places, bucket) => {
    if (places.length === 0) return;
    context.fillStyle = scene.look.ratings[bucket] ?? scene.look.muted;
    context.beginPath();
    for (const place of places) {
      const one = scene.layout.placed[place];
      if (!one) continue;
      // A circle of four pixels looks like a square.
      if (isTiny) context.rect(one.x - radius, one.y - radius, 2 * radius, 2 * radius);
      else addShape(context, scene.shapes[place] ?? "active", one.x, one.y, radius);
    }
    context.fill();
  });
  context.strokeStyle = scene.look.muted;
  context.lineWidth = 1.5 / camera.scale;
  context.beginPath();
  for (const place of hollow) {
    const one = scene.layout.placed[place];
    if (one) addShape(context, scene.shapes[place] ?? "making", one.x, one.y, radius * 0.8);
  }
  context.stroke();
}

function drawTile(context: CanvasRenderingContext2D, scene: Scene, place: number, camera: Camera): void {
  const one = scene.layout.placed[place];
  const shape = scene.shapes[place] ?? "active";
  if (!one) return;
  const { look } = scene;
  const left = one.x - NODE_WIDTH / 2;
  const top = one.y - NODE_HEIGHT / 2;
  const colour =
    shape === "making" || shape === "rejected" || shape === "surplus"
      ? look.muted
      : (look.ratings[scene.buckets[place] ?? MIDDLE] ?? look.muted);
  const image = one.node && scene.imageOf(one.node.id);
  context.beginPath();
  context.roundRect(left, top, NODE_WIDTH, NODE_HEIGHT, RADIUS);
  context.fillStyle = shape === "making" ? look.panel : look.hover;
  context.fill();
  if (image) {
    context.save();
    context.clip();
    context.globalAlpha = shape === "rejected" || shape === "surplus" ? 0.3 : 1;
    drawCovering(context, image, left, top);
    context.restore();
  }
  context.lineWidth = shape === "winner" ? 5 : 3;
  context.strokeStyle = colour;
  context.setLineDash(shape === "making" ? [6, 5] : []);
  context.stroke();
  context.setLineDash([]);
  drawMark(context, one, shape, colour, look);
  if (!image && one.node && NODE_WIDTH * camera.scale >= TEXT_PIXELS) {
    context.fillStyle = look.muted;
    context.font = `13px ${look.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(`${one.node.number}`, one.x, one.y);
  }
}

/** The shape of the state in a corner. The patch behind it keeps it legible on any image. */
function drawMark(context: CanvasRenderingContext2D, one: Placed, shape: Shape, colour: string, look: Look): void {
  const [x, y, radius] = [one.x + NODE_WIDTH / 2 - 13, one.y - NODE_HEIGHT / 2 + 13, 6];
  context.beginPath();
  context.arc(x, y, radius + 4, 0, 2 * Math.PI);
  context.fillStyle = look.panel;
  context.fill();
  context.beginPath();
  addShape(context, shape, x, y, radius);
  context.lineWidth = 2;
  context.strokeStyle = context.fillStyle = colour;
  if (shape === "active" || shape === "winner" || shape === "failing") context.fill();
  else context.stroke();
}

function drawCovering(context: CanvasRenderingContext2D, image: HTMLImageElement, left: number, top: number): void {
  const wanted = NODE_WIDTH / NODE_HEIGHT;
  const has = image.naturalWidth / Math.max(image.naturalHeight, 1);
  const width = has > wanted ? image.naturalHeight * wanted : image.naturalWidth;
  const height = has > wanted ? image.naturalHeight : image.naturalWidth / wanted;
  context.drawImage(
    image,
    (image.naturalWidth - width) / 2,
    (image.naturalHeight - height) / 2,
    width,
    height,
    left,
    top,
    NODE_WIDTH,
    NODE_HEIGHT,
  );
}

function drawStepNames(context: CanvasRenderingContext2D, scene: Scene, camera: Camera): void {
  // The text has the size of other texts while a column is wide enough.
  const size = Math.min(13 / camera.scale, 34);
  if (size * camera.scale < 9) return;
  context.fillStyle = scene.look.muted;
  context.font = `600 ${size}px ${scene.look.font}`;
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  const names = scene.stepNames.map((name) => shortened(name, (text) => context.measureText(text).width, COLUMN - 12));
  for (const left of scene.layout.bands) {
    names.forEach((name, step) => context.fillText(name, left + step * COLUMN, HEAD - 18));
  }
}

function drawSelection(context: CanvasRenderingContext2D, one: Placed, camera: Camera, look: Look): void {
  const space = Math.max(6, 4 / camera.scale);
  context.lineWidth = Math.max(3, 2.5 / camera.scale);
  context.strokeStyle = look.accent;
  context.beginPath();
  context.roundRect(
    one.x - NODE_WIDTH / 2 - space,
    one.y - NODE_HEIGHT / 2 - space,
    NODE_WIDTH + 2 * space,
    NODE_HEIGHT + 2 * space,
    RADIUS + space,
  );
  context.stroke();
}
