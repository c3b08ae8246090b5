import { Activity, Cpu, GitFork, Images, ListTree, ListVideo, Sparkles, UserRound, type LucideIcon } from "lucide-react";
import type { Me } from "@/api/types";
import { accountTexts } from "@/texts/account";
import { frameTexts } from "@/texts/frame";
import { operateTexts } from "@/texts/operate";

export interface Place {
  to: "/effects" | "/tasks/new" | "/jobs" | "/runs" | "/account" | "/operate" | "/operate/jobs" | "/operate/workers";
  label: string;
  icon: LucideIcon;
  /** The second key after G. */
  key: string;
}

export const CREATE: readonly Place[] = [
  { to: "/effects", label: frameTexts.effects, icon: Images, key: "e" },
  { to: "/tasks/new", label: frameTexts.tasks, icon: Sparkles, key: "t" },
];
export const LIBRARY: readonly Place[] = [
  { to: "/jobs", label: frameTexts.jobs, icon: ListVideo, key: "j" },
  { to: "/runs", label: frameTexts.runs, icon: GitFork, key: "r" },
];
export const ACCOUNT: Place = { to: "/account", label: frameTexts.account, icon: UserRound, key: "a" };
/** The first one is the page itself. */
export const ACCOUNT_SECTIONS = [
  { tab: "keys", label: accountTexts.keys },
  { tab: "security", label: accountTexts.security },
  { tab: "appearance", label: accountTexts.appearance },
] as const;
export const PLACES: readonly Place[] = [...CREATE, ...LIBRARY, ACCOUNT];
/** For roles that may see the queue. */
export const OPERATE: readonly Place[] = [
  { to: "/operate", label: operateTexts.overview, icon: Activity, key: "o" },
  { to: "/operate/jobs", label: operateTexts.jobs, icon: ListTree, key: "q" },
  { to: "/operate/workers", label: operateTexts.workers, icon: Cpu, key: "w" },
];

export function seesOperate(role: Me["role"]): boolean {
  return role === "operator" || role === "viewer";
}
