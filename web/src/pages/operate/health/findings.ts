// Orders the checks of the health page. Pure.
import type { Schemas } from "@/api/types";

type Finding = Schemas["HealthFinding"];
const ORDER: readonly Finding["status"][] = ["problem", "warning", "ok"];

/** Checks with the same status keep their order. */
export function worstFirst(findings: readonly Finding[]): Finding[] {
  return ORDER.flatMap((status) => findings.filter((finding) => finding.status === status));
}

export function countOf(findings: readonly Finding[], status: Finding["status"]): number {
  return findings.filter((finding) => finding.status === status).length;
}
