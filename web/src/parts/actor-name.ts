// Names the user or process that acted. Pure.
import { commonTexts } from "@/texts/common";

interface Acted {
  actor: string;
  actor_email?: string | null;
}

// The server replaces the e-mail address of a deleted user by this.
const DELETED = /^deleted-[0-9a-f-]{30}([0-9a-f]{6})@users\.invalid$/;

/** The e-mail address of a user; for a deleted user the end of the id; otherwise the process that acted. */
export function actorName({ actor, actor_email }: Acted): string {
  return actor_email ? nameOfUser(actor_email) : (commonTexts.actors[actor] ?? actor);
}

export function nameOfUser(email: string): string {
  const end = DELETED.exec(email)?.[1];
  return end ? commonTexts.deletedUser(end) : email;
}
