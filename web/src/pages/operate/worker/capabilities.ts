// Reads the capabilities that an agent reports. Other agents report other values, so the code checks everything.
type Capabilities = Record<string, unknown>;

export function agentOf(capabilities: Capabilities): string | null {
  return typeof capabilities.agent === "string" ? capabilities.agent : null;
}

export interface NodePackage {
  name: string;
  /** null: the engine does not report it. */
  version: string | null;
}

const COMMIT = /^[0-9a-f]{40}$/;
const SHOWN_OF_COMMIT = 10;

/** Packages of custom nodes. A version that is a commit is shortened, as git does it. */
export function customNodesOf(capabilities: Capabilities): NodePackage[] {
  const names = capabilities.custom_nodes;
  const versions = capabilities.custom_node_versions;
  if (!Array.isArray(names)) return [];
  const known = typeof versions === "object" && versions !== null ? (versions as Record<string, unknown>) : {};
  return names
    .filter((name) => typeof name === "string")
    .map((name) => {
      const version = Object.hasOwn(known, name) ? known[name] : null;
      return {
        name,
        version:
          typeof version !== "string" ? null : COMMIT.test(version) ? version.slice(0, SHOWN_OF_COMMIT) : version,
      };
    });
}

const SHOWN_ELSEWHERE = new Set(["agent", "engines", "each_engine", "custom_nodes", "custom_node_versions"]);
const MAX_FACTS = 50;
const MAX_FACT_LENGTH = 300;

/** Other reported values, for example the GPU. */
export function otherFactsOf(capabilities: Capabilities): { name: string; value: string }[] {
  return Object.entries(capabilities)
    .filter(([name]) => !SHOWN_ELSEWHERE.has(name))
    .sort(([one], [other]) => one.localeCompare(other))
    .slice(0, MAX_FACTS)
    .map(([name, value]) => ({
      name: cut(name),
      value: cut(typeof value === "string" ? value : JSON.stringify(value)),
    }));
}

function cut(text: string): string {
  return text.length > MAX_FACT_LENGTH ? `${text.slice(0, MAX_FACT_LENGTH)}…` : text;
}
