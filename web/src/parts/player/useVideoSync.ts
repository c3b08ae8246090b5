// Keeps one video at the same position as another. If their lengths differ, for example after slow motion, the share
// counts.
import { type RefObject, useEffect } from "react";
import { play } from "./usePlayback";

// Beyond this difference the follower jumps. Below it, the follower plays slightly faster or slower, which is
// invisible.
const JUMP_SECONDS = 0.25;
const CLOSE_SECONDS = 0.02;
const MAX_CORRECTION = 0.2;
// Smaller differences of the length come from another frame rate or container.
const SAME_LENGTH = 0.05;

export function paceOf(leader: number, follower: number): number {
  if (!Number.isFinite(leader) || !Number.isFinite(follower) || leader <= 0 || follower <= 0) return 1;
  const pace = follower / leader;
  return Math.abs(pace - 1) < SAME_LENGTH ? 1 : pace;
}

export function useVideoSync(
  leaderRef: RefObject<HTMLVideoElement | null>,
  followerRef: RefObject<HTMLVideoElement | null>,
  key: string,
): void {
  useEffect(() => {
    const leader = leaderRef.current;
    const follower = followerRef.current;
    if (leader === null || follower === null) return;
    let frame = 0;
    const target = () =>
      Math.min(leader.currentTime * paceOf(leader.duration, follower.duration), follower.duration || Infinity);
    const jump = () => {
      if (follower.readyState > 0) follower.currentTime = target();
    };
    const follow = () => {
      if (leader.paused) return;
      const pace = paceOf(leader.duration, follower.duration);
      const behind = target() - follower.currentTime;
      if (Math.abs(behind) > JUMP_SECONDS) jump();
      const correction =
        Math.abs(behind) < CLOSE_SECONDS ? 0 : Math.max(-MAX_CORRECTION, Math.min(MAX_CORRECTION, behind));
      follower.playbackRate = Math.min(16, Math.max(0.0625, pace * leader.playbackRate * (1 + correction)));
      if (follower.paused && target() < (follower.duration || Infinity) - CLOSE_SECONDS) play(follower);
      frame = requestAnimationFrame(follow);
    };
    const start = () => {
      cancelAnimationFrame(frame);
      follow();
    };
    const stop = () => {
      cancelAnimationFrame(frame);
      follower.pause();
      jump();
    };
    follower.muted = true;
    leader.addEventListener("play", start);
    leader.addEventListener("pause", stop);
    leader.addEventListener("seeking", jump);
    follower.addEventListener("loadedmetadata", jump);
    if (!leader.paused) start();
    return () => {
      cancelAnimationFrame(frame);
      leader.removeEventListener("play", start);
      leader.removeEventListener("pause", stop);
      leader.removeEventListener("seeking", jump);
      follower.removeEventListener("loadedmetadata", jump);
    };
  }, [leaderRef, followerRef, key]);
}
