import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { useSave } from "@/parts/useAction";
import { freshPassword } from "./passwords";

export type Way = "invitation" | "password";

export interface NewUser {
  way: Way;
  tenant: string;
  email: string;
  name: string;
  role: Schemas["Role"];
}

export interface Added {
  email: string;
  /** Password of a created user. */
  password?: string;
  /** Link of an invitation that the server does not send by mail. */
  link?: string | null;
}

export function useAddUser() {
  return useSave({
    mutationFn: ({ way, ...user }: NewUser) => (way === "password" ? create(user) : invite(user)),
    changes: [keys.allUsers, keys.allTenants],
    // The result contains a password or a link, so the cache drops it when the dialog closes.
    gcTime: 0,
  });
}

async function create(user: Omit<NewUser, "way">): Promise<Added> {
  const password = freshPassword();
  const created = await data(api.POST("/api/admin/users", { body: { ...user, password } }));
  return { email: created.email, password };
}

async function invite({ tenant, email, role }: Omit<NewUser, "way">): Promise<Added> {
  const invitation = await data(api.POST("/api/admin/invitations", { body: { tenant, email, role } }));
  return { email: invitation.email, link: invitation.link };
}
