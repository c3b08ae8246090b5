// Roles that users may give. Pure.
import type { Schemas } from "@/api/types";

type Role = Schemas["Role"];

/** The roles that a user with this role may give. */
export function rolesOf(role: Role | undefined): readonly Role[] {
  if (role === "operator") return ["user", "tenant_admin", "viewer", "operator"];
  return role === "tenant_admin" ? ["user", "tenant_admin"] : [];
}
