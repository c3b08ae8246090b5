// What an agent says of itself. Other agents report what they like, so nothing is taken for granted.
type Capabilities = Record<string, unknown>;

export function agentOf(capabilities: Capabilities): string | null {
  return typeof capabilities["agent"] === "string" ? capabilities["agent"] : null;
}

export interface NodePackage {
  name: string;
  /** null: the engine does not report it. */
  version: string | null;
}

const COMMIT = /^[0-9a-f]{40}$/;
const SHOWN_OF_COMMIT = 10;

/** The packages of custom nodes. A version that is a commit is shortened, as git does it. */
export function customNodesOf(capabilities: Capabilities): NodePackage[] {
  const names = capabilities["custom_nodes"];
  const versions = capabilities["custom_node_versions"];
  if (!Array.isArray(names)) return [];
  const known = typeof versions === "object" && versions !== null ? (versions as Record<string, unknown>) : {};
  return names
    .filter((name) => typeof name === "string")
    .map((name) => {
      const version = Object.hasOwn(known, name) ? known[name] : null;
      return { name, version: typeof version !== "string" ? null : COMMIT.test(version) ? version.slice(0, SHOWN_OF_COMMIT) : version };
    });
}
