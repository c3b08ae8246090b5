import { Images, ListVideo, Sparkles, UserRound, type LucideIcon } from "lucide-react";
import { frameTexts } from "@/texts/frame";

export interface Place {
  to: "/effects" | "/tasks/new" | "/jobs" | "/account";
  label: string;
  icon: LucideIcon;
  /** The second key after G. */
  key: string;
}

export const CREATE: readonly Place[] = [
  { to: "/effects", label: frameTexts.effects, icon: Images, key: "e" },
  { to: "/tasks/new", label: frameTexts.tasks, icon: Sparkles, key: "t" },
];
export const LIBRARY: readonly Place[] = [{ to: "/jobs", label: frameTexts.jobs, icon: ListVideo, key: "j" }];
export const ACCOUNT: Place = { to: "/account", label: frameTexts.account, icon: UserRound, key: "a" };
export const PLACES: readonly Place[] = [...CREATE, ...LIBRARY, ACCOUNT];
