// A quiet landscape for things without an image. The same name gives the same landscape. Pure.
export interface Art {
  sky: [string, string];
  sun: { x: number; y: number; radius: number; color: string };
  ridges: { path: string; color: string }[];
}

export const ART_WIDTH = 320;
export const ART_HEIGHT = 200;
const RIDGES = 4;

export function artOf(name: string): Art {
  const random = seeded(name);
  const hue = random() * 360;
  const turn = 40 + random() * 50;
  const sky: [string, string] = [color(0.42 + random() * 0.08, 0.09, hue), color(0.8, 0.1, hue + turn)];
  const sun = {
    x: ART_WIDTH * (0.2 + random() * 0.6),
    y: ART_HEIGHT * (0.34 + random() * 0.2),
    radius: 16 + random() * 16,
    color: color(0.93, 0.06, hue + turn),
  };
  const ridges = Array.from({ length: RIDGES }, (_, index) => {
    const depth = index / (RIDGES - 1);
    return {
      path: ridge(random, 0.52 + depth * 0.3, 22 - depth * 8),
      color: color(0.58 - depth * 0.38, 0.09 - depth * 0.04, hue + turn * (1 - depth)),
    };
  });
  return { sky, sun, ridges };
}

function ridge(random: () => number, level: number, height: number): string {
  const phases = [random(), random(), random()].map((value) => value * Math.PI * 2);
  const points: string[] = [];
  for (let x = 0; x <= ART_WIDTH; x += 8) {
    const at = x / ART_WIDTH;
    const wave =
      Math.sin(at * 4 + phases[0]!) * 0.6 + Math.sin(at * 9 + phases[1]!) * 0.3 + Math.sin(at * 21 + phases[2]!) * 0.1;
    points.push(`${x},${(ART_HEIGHT * level - wave * height).toFixed(1)}`);
  }
  return `M0,${ART_HEIGHT} L${points.join(" L")} L${ART_WIDTH},${ART_HEIGHT} Z`;
}

function color(lightness: number, chroma: number, hue: number): string {
  return `oklch(${lightness.toFixed(3)} ${chroma.toFixed(3)} ${(((hue % 360) + 360) % 360).toFixed(1)})`;
}

/** Pseudo-random numbers from 0 to 1: FNV-1a, then mulberry32. */
function seeded(name: string): () => number {
  let state = 2166136261;
  for (const character of name) state = Math.imul(state ^ character.codePointAt(0)!, 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
