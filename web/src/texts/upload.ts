import { counted } from "./plurals";

export const uploadTexts = {
  kinds: { image: "an image", video: "a video", audio: "an audio file" } as const,
  formats: {
    image: "JPEG, PNG, WebP and others",
    video: "MP4, MOV, WebM and others",
    audio: "MP3, WAV, FLAC and others",
  } as const,
  upTo: (size: string) => `up to ${size}`,
  atMost: (time: string) => `at most ${time} long`,
  drop: { image: "Drop an image here", video: "Drop a video here", audio: "Drop an audio file here" } as const,
  dropSeveral: {
    image: "Drop one or more images here",
    video: "Drop one or more videos here",
    audio: "Drop one or more audio files here",
  } as const,
  add: { image: "Add an image", video: "Add a video", audio: "Add an audio file" } as const,
  dropNow: "Drop it to use it here",
  orPaste: "or paste it, or",
  orPasteSeveral: "or paste them, or",
  choose: "Choose a file",
  chooseSeveral: "Choose files",
  camera: "Use the camera",
  replace: "Replace",
  remove: "Remove",
  cancel: "Cancel the upload",
  retry: "Try again",
  checking: "Checking the file…",
  finishing: "Checking the uploaded file…",
  paused: "Paused until you are online again.",
  uploading: (percent: number) => `Uploading, ${percent} %`,
  speed: (sent: string, total: string, speed: string) => `${sent} of ${total} · ${speed}/s`,
  timeLeft: (time: string) => `${time} left`,
  uploaded: "Uploaded",
  failed: "The upload was interrupted. Your form is kept; try again.",
  failedStorage: "The storage refused the upload. Your form is kept; try again.",
  gone: "The file of this form no longer exists. Choose it again.",
  wrongType: (name: string, kind: string, accepted: string) =>
    `“${name}” is not ${kind} that can be used here. Accepted: ${accepted}.`,
  empty: (name: string) => `“${name}” is empty. Choose another file.`,
  tooLarge: (name: string, size: string, accepted: string) =>
    `“${name}” is too large (${size}). Accepted: ${accepted}.`,
  tooLong: (name: string, time: string, accepted: string) => `“${name}” is too long (${time}). Accepted: ${accepted}.`,
  tooManyPixels: (name: string, width: number, height: number, most: number) =>
    `“${name}” has ${width} × ${counted(height, "pixel")}. Images may have up to ${most} megapixels.`,
};
