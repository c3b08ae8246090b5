// What an agent says of itself. Other agents report what they like, so nothing is taken for granted.
type Capabilities = Record<string, unknown>;

export function agentOf(capabilities: Capabilities): string | null {
  return typeof capabilities["agent"] === "string" ? capabilities["agent"] : null;
}

export function customNodesOf(capabilities: Capabilities): string[] {
  const names = capabilities["custom_nodes"];
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}
