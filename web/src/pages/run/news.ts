// Detects changes of a run and adds new candidates to a loaded tree. Pure.
import type { Run, TreeNode } from "./queries";

/** A text that differs if a tab would show something else. */
export function fingerprint(run: Run): string {
  return [
    run.status,
    run.reason ?? "",
    run.candidates,
    run.spent,
    run.budget,
    run.updated_at,
    ...run.steps.map((step) => `${step.active}/${step.in_flight}/${step.approved}`),
  ].join(" ");
}

/** The tree with the new candidates. Their parents have one child more and one job less. */
export function appended(before: readonly TreeNode[], nodes: readonly TreeNode[]): TreeNode[] {
  const last = before.at(-1)?.number ?? 0;
  const fresh = nodes.filter((node) => node.number > last);
  const born = new Map<string, number>();
  for (const node of fresh)
    if (node.parent_id && node.rejection !== "surplus") born.set(node.parent_id, (born.get(node.parent_id) ?? 0) + 1);
  const changed = before.map((node) => {
    const children = born.get(node.id) ?? 0;
    return children === 0
      ? node
      : { ...node, child_count: node.child_count + children, in_flight: Math.max(0, node.in_flight - children) };
  });
  return [...changed, ...fresh];
}
