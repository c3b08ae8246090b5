import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/queries";
import { OPERATE, PLACES, seesOperate, type Place } from "./navigation";

const ALL: readonly Place[] = [...PLACES, ...OPERATE];

/** The pages that this person may open. */
export function usePlaces(): readonly Place[] {
  const { data } = useQuery(meQuery);
  return data && seesOperate(data.role) ? ALL : PLACES;
}
