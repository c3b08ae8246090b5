import {
  Activity,
  Boxes,
  Building2,
  Cpu,
  GitFork,
  HeartPulse,
  ImagePlus,
  Images,
  Layers,
  ListTree,
  ListVideo,
  type LucideIcon,
  Plug,
  Scale,
  ScrollText,
  SlidersHorizontal,
  Sparkles,
  Store,
  UserRound,
  UsersRound,
  Waypoints,
  Workflow,
} from "lucide-react";
import type { Me } from "@/api/types";
import { accountTexts } from "@/texts/account";
import { frameTexts } from "@/texts/frame";
import { operateTexts } from "@/texts/operate";

export interface Place {
  to:
    | "/effects"
    | "/tasks/new"
    | "/pipelines"
    | "/jobs"
    | "/batches"
    | "/runs"
    | "/account"
    | "/operate"
    | "/operate/jobs"
    | "/operate/workers"
    | "/operate/fleets"
    | "/operate/workflows"
    | "/operate/effects"
    | "/operate/assets"
    | "/operate/tenants"
    | "/operate/users"
    | "/operate/providers"
    | "/operate/audit"
    | "/operate/ledger"
    | "/operate/settings"
    | "/operate/health";
  label: string;
  icon: LucideIcon;
  /** The second key after G. Pages that are opened seldom have none. */
  key?: string;
  /** The bar of phones has no room for it. The page of jobs links to it there. */
  isNotInBar?: boolean;
  /** A tenant admin sees the page with the data of the own tenant. */
  isForTenantAdmins?: boolean;
}

export const CREATE: readonly Place[] = [
  { to: "/effects", label: frameTexts.effects, icon: Images, key: "e" },
  { to: "/tasks/new", label: frameTexts.tasks, icon: Sparkles, key: "t" },
  { to: "/pipelines", label: frameTexts.pipelines, icon: Waypoints, key: "p" },
];
export const LIBRARY: readonly Place[] = [
  { to: "/jobs", label: frameTexts.jobs, icon: ListVideo, key: "j" },
  { to: "/batches", label: frameTexts.batches, icon: Layers, key: "b", isNotInBar: true },
  { to: "/runs", label: frameTexts.runs, icon: GitFork, key: "r" },
];
export const ACCOUNT: Place = { to: "/account", label: frameTexts.account, icon: UserRound, key: "a" };
/** The first path is the page itself. */
export const ACCOUNT_SECTIONS = [
  { tab: "keys", label: accountTexts.keys },
  { tab: "security", label: accountTexts.security },
  { tab: "appearance", label: accountTexts.appearance },
] as const;
export const PLACES: readonly Place[] = [...CREATE, ...LIBRARY, ACCOUNT];
/** Pages for operators and viewers. Tenant admins see some of them. */
export const OPERATE: readonly Place[] = [
  { to: "/operate", label: operateTexts.overview, icon: Activity, key: "o" },
  { to: "/operate/jobs", label: operateTexts.jobs, icon: ListTree, key: "q" },
  { to: "/operate/workers", label: operateTexts.workers, icon: Cpu, key: "w" },
  { to: "/operate/fleets", label: operateTexts.fleets, icon: Boxes },
  { to: "/operate/workflows", label: operateTexts.workflows, icon: Workflow, key: "f" },
  { to: "/operate/effects", label: operateTexts.effects, icon: Store, key: "x" },
  { to: "/operate/assets", label: operateTexts.assets, icon: ImagePlus },
  { to: "/operate/tenants", label: operateTexts.tenants, icon: Building2, isForTenantAdmins: true },
  { to: "/operate/users", label: operateTexts.users, icon: UsersRound, key: "u", isForTenantAdmins: true },
  { to: "/operate/providers", label: operateTexts.providers, icon: Plug },
  { to: "/operate/audit", label: operateTexts.audit, icon: ScrollText },
  { to: "/operate/ledger", label: operateTexts.ledger, icon: Scale },
  { to: "/operate/settings", label: operateTexts.settings, icon: SlidersHorizontal },
  { to: "/operate/health", label: operateTexts.health, icon: HeartPulse },
];

/** Whether a role sees the whole installation. */
export function seesOperate(role: Me["role"]): boolean {
  return role === "operator" || role === "viewer";
}

/** The operator pages that a role may open. */
export function operatePlaces(role: Me["role"] | undefined): readonly Place[] {
  if (role !== undefined && seesOperate(role)) return OPERATE;
  return role === "tenant_admin" ? OPERATE.filter((place) => place.isForTenantAdmins) : [];
}

/** Whether a role may open a path below /operate. */
export function mayOpen(role: Me["role"], path: string): boolean {
  const places = operatePlaces(role);
  return places.length === OPERATE.length || places.some(({ to }) => path === to || path.startsWith(`${to}/`));
}
