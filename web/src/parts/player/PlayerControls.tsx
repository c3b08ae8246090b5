import { Maximize, Minimize, Pause, Play, Volume2, VolumeX } from "lucide-react";
import { type RefObject, useEffect, useState } from "react";
import { Button, Slider } from "@/design";
import { clock } from "@/parts/media";
import { mediaTexts } from "@/texts/media";
import type { Playback } from "./usePlayback";

interface Props {
  playback: Playback;
  /** Element that fills the screen. */
  container: RefObject<HTMLElement | null>;
}

export function PlayerControls({ playback, container }: Props) {
  const { isPlaying, isMuted, time, duration } = playback;
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const read = () => setFull(document.fullscreenElement !== null && document.fullscreenElement === container.current);
    document.addEventListener("fullscreenchange", read);
    return () => document.removeEventListener("fullscreenchange", read);
  }, [container]);
  const toggleFull = () => void (isFull ? document.exitFullscreen() : container.current?.requestFullscreen?.());
  return (
    <div className="flex items-center gap-1 border-t bg-panel px-1.5 py-1">
      <Button
        look="quiet"
        size="icon"
        aria-label={isPlaying ? mediaTexts.pause : mediaTexts.play}
        onClick={playback.toggle}
        icon={
          isPlaying ? (
            <Pause size={16} fill="currentColor" strokeWidth={0} />
          ) : (
            <Play size={16} fill="currentColor" strokeWidth={0} />
          )
        }
      />
      <div className="min-w-0 grow px-1.5">
        <Slider
          value={Math.min(time, duration)}
          min={0}
          max={duration || 1}
          step={0.01}
          disabled={duration === 0}
          onChange={playback.seek}
          label={mediaTexts.position}
          valueText={mediaTexts.positionOf(clock(time), clock(duration))}
        />
      </div>
      <span className="num px-1 text-xs whitespace-nowrap text-muted">
        {clock(time)} / {clock(duration)}
      </span>
      <Button
        look="quiet"
        size="icon"
        aria-label={isMuted ? mediaTexts.unmute : mediaTexts.mute}
        onClick={playback.toggleSound}
        icon={isMuted ? <VolumeX size={16} /> : <Volume2 size={16} />}
      />
      {document.fullscreenEnabled && (
        <Button
          look="quiet"
          size="icon"
          aria-label={isFull ? mediaTexts.leaveFullscreen : mediaTexts.fullscreen}
          onClick={toggleFull}
          icon={isFull ? <Minimize size={16} /> : <Maximize size={16} />}
        />
      )}
    </div>
  );
}
