import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";

/** Rights of this user's role; none while the role is unknown. The API decides in any case. */
export function useRole(): { me: Me | undefined; mayOperate: boolean; mayManageUsers: boolean } {
  const { data: me } = useQuery(meQuery);
  const mayOperate = me?.role === "operator";
  return { me, mayOperate, mayManageUsers: mayOperate || me?.role === "tenant_admin" };
}
