import { useQuery } from "@tanstack/react-query";
import { meQuery } from "@/api/queries";
import { operatePlaces, PLACES, type Place } from "./navigation";

/** The pages that this user may open. */
export function usePlaces(): readonly Place[] {
  return [...PLACES, ...useOperatePlaces()];
}

/** The operator pages that this user may open. */
export function useOperatePlaces(): readonly Place[] {
  const { data } = useQuery(meQuery);
  return operatePlaces(data?.role);
}
