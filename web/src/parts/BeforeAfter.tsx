import { ChevronsLeftRight, Maximize2 } from "lucide-react";
import { type KeyboardEvent, type PointerEvent, type RefObject, useEffect, useRef, useState } from "react";
import { mediaTexts } from "@/texts/media";
import { type Media, ratioOf } from "./media";
import { MediaBox } from "./player/MediaBox";
import { PlayerControls } from "./player/PlayerControls";
import { play, usePlayback, wantsLessMotion } from "./player/usePlayback";
import { useVideoSync } from "./player/useVideoSync";
import { Zoom } from "./player/Zoom";

interface Props {
  before: Media;
  after: Media;
  /** Plays automatically, silently, in a loop and without controls, for examples. */
  isExample?: boolean;
  maxHeight?: string;
}

const STEP = 2;
const LARGE_STEP = 10;

/** Two images or videos on top of each other, with a divider to drag. Videos play in step. */
export function BeforeAfter({ before, after, isExample = false, maxHeight }: Props) {
  const [share, setShare] = useState(50);
  const box = useRef<HTMLDivElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const leader = useRef<HTMLVideoElement>(null);
  const follower = useRef<HTMLVideoElement>(null);
  const playback = usePlayback(leader, after.url);
  useVideoSync(leader, follower, `${before.url} ${after.url}`);
  useEffect(() => {
    if (isExample && leader.current !== null && !wantsLessMotion()) play(leader.current);
  }, [isExample, after.url]);
  const drag = (event: PointerEvent) => {
    const edges = stage.current?.getBoundingClientRect();
    if (edges === undefined || edges.width === 0) return;
    setShare(Math.min(100, Math.max(0, ((event.clientX - edges.left) / edges.width) * 100)));
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    stage.current?.setPointerCapture(event.pointerId);
    drag(event);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next = moved(share, event.key, event.shiftKey);
    if (next === null) return;
    event.preventDefault();
    setShare(next);
  };
  const isVideo = after.kind === "video";
  return (
    <MediaBox
      ref={box}
      ratio={ratioOf(after, before)}
      maxHeight={maxHeight}
      controls={isVideo && !isExample && <PlayerControls playback={playback} container={box} />}
    >
      <div
        ref={stage}
        onPointerDown={onPointerDown}
        onPointerMove={(event) =>
          event.buttons === 1 && stage.current?.hasPointerCapture(event.pointerId) && drag(event)
        }
        className="absolute inset-0 cursor-ew-resize touch-pan-y select-none"
      >
        <Layer media={after} video={leader} label={mediaTexts.after} loop />
        <div className="absolute inset-0" style={{ clipPath: `inset(0 ${100 - share}% 0 0)` }}>
          <Layer media={before} video={follower} label={mediaTexts.before} />
        </div>
        <Tag side="left" isShown={share > 14}>
          {mediaTexts.before}
        </Tag>
        <Tag side="right" isShown={share < 86}>
          {mediaTexts.after}
        </Tag>
        <div
          className="pointer-events-none absolute inset-y-0 w-0.5 -translate-x-1/2 bg-white shadow-[0_0_0_1px_rgb(0_0_0/0.25)]"
          style={{ left: `${share}%` }}
        />
        <div
          role="slider"
          tabIndex={0}
          aria-label={mediaTexts.divider}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(share)}
          aria-valuetext={mediaTexts.dividerAt(Math.round(share))}
          onKeyDown={onKeyDown}
          className="absolute top-1/2 grid size-11 -translate-x-1/2 -translate-y-1/2 place-items-center rounded-full! border border-black/20 bg-white text-black shadow-high"
          style={{ left: `${share}%` }}
        >
          <ChevronsLeftRight size={20} aria-hidden />
        </div>
      </div>
      {!isVideo && !isExample && (
        <Zoom
          media={after}
          className="absolute right-3 bottom-3 grid size-9 place-items-center rounded-s bg-black/60 text-white transition-colors duration-100 hover:bg-black/80 touch:size-11"
        >
          <Maximize2 size={16} aria-hidden />
        </Zoom>
      )}
    </MediaBox>
  );
}

function Layer({
  media,
  video,
  label,
  loop = false,
}: {
  media: Media;
  video: RefObject<HTMLVideoElement | null>;
  label: string;
  loop?: boolean;
}) {
  const style = "pointer-events-none absolute inset-0 size-full object-contain";
  if (media.kind !== "video") return <img src={media.url} alt={label} className={style} draggable={false} />;
  return (
    <video
      ref={video}
      src={media.url}
      poster={media.poster ?? undefined}
      aria-label={label}
      className={style}
      muted
      playsInline
      loop={loop}
      preload="auto"
    />
  );
}

function Tag({ side, isShown, children }: { side: "left" | "right"; isShown: boolean; children: string }) {
  return (
    <span
      aria-hidden
      className={`pointer-events-none absolute top-3 rounded-full bg-black/60 px-2.5 py-0.5 text-xs font-[550] text-white transition-opacity duration-150 ${side === "left" ? "left-3" : "right-3"} ${isShown ? "" : "opacity-0"}`}
    >
      {children}
    </span>
  );
}

/** null if the key does not move the divider. */
export function moved(share: number, key: string, isLarge: boolean): number | null {
  const step = isLarge ? LARGE_STEP : STEP;
  switch (key) {
    case "ArrowLeft":
    case "ArrowDown":
      return Math.max(0, share - step);
    case "ArrowRight":
    case "ArrowUp":
      return Math.min(100, share + step);
    case "PageDown":
      return Math.max(0, share - LARGE_STEP);
    case "PageUp":
      return Math.min(100, share + LARGE_STEP);
    case "Home":
      return 0;
    case "End":
      return 100;
    default:
      return null;
  }
}
