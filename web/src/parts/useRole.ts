import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";

/** What the role of this person allows; nothing while it is not known. The API decides in any case. */
export function useRole(): { me: Me | undefined; mayOperate: boolean; mayManageUsers: boolean } {
  const { data: me } = useQuery(meQuery);
  const mayOperate = me?.role === "operator";
  return { me, mayOperate, mayManageUsers: mayOperate || me?.role === "tenant_admin" };
}
