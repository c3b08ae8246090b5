import type { Schemas } from "@/api/types";

export const roleTexts: Record<Schemas["Role"], string> = {
  user: "User",
  tenant_admin: "Tenant admin",
  operator: "Operator",
  viewer: "Viewer",
};

export const roleHints: Record<Schemas["Role"], string> = {
  user: "Own jobs, files and tokens.",
  tenant_admin: "Also the users and jobs of the tenant.",
  viewer: "Sees what operators see, except payloads and secrets, and changes nothing.",
  operator: "Everything, in every tenant.",
};

export const usersTexts = {
  title: "Users",
  text: "People who sign in, and the programs that act for them.",
  search: "Search by e-mail address or name",
  list: "Users",
  views: { users: "Users", invitations: "Invitations", mails: "Unsent e-mails" },
  viewLabel: "Which list",
  add: "Add user",
  ofTenant: (tenant: string) => `Tenant: ${tenant}`,
  clearTenant: "Show the users of all tenants",
  columns: { user: "User", tenant: "Tenant", role: "Role", state: "State", created: "Created" },
  active: "Active",
  disabled: "Disabled",
  deleted: "Deleted",
  none: "No users",
  noneText: "Invite a person, or create a user with a password.",
  notFound: "No user matches",
  notFoundText: "Search for a part of the e-mail address.",
};

export const invitationTexts = {
  list: "Invitations",
  columns: { email: "E-mail address", tenant: "Tenant", role: "Role", state: "State", expires: "Expires" },
  states: { accepted: "Accepted", revoked: "Revoked", expired: "Expired", failed: "Mail failed", open: "Open" },
  revoke: "Revoke",
  revokeOf: (email: string) => `Revoke the invitation of ${email}`,
  revokeTitle: (email: string) => `Revoke the invitation of ${email}?`,
  revokeText: "Its link stops working at once. You can invite the person again.",
  keep: "Keep it",
  revoked: "The invitation is revoked.",
  none: "No invitations",
  noneText: "Invitations are listed here until they are accepted or expire.",
};

export const mailTexts = {
  list: "Unsent e-mails",
  text: "Invitations and password resets that the mail server has not accepted yet. Each is tried twelve times in six hours.",
  columns: { email: "Recipient", state: "State", error: "Last error", attempts: "Attempts", next: "Next attempt" },
  kinds: { invitation: "Invitation", password_reset: "Password reset" } satisfies Record<
    Schemas["Mail"]["kind"],
    string
  >,
  waiting: "Waiting",
  failed: "Failed permanently",
  noError: "No attempt has failed yet.",
  never: "None",
  send: "Send again",
  sendTo: (email: string) => `Send again to ${email}`,
  sent: (email: string) => `The e-mail to ${email} is sent again now.`,
  none: "Every e-mail was sent",
  noneText: "E-mails that the mail server does not accept are listed here with the error.",
};

export const addUserTexts = {
  title: "Add a user",
  how: "How the person gets access",
  ways: { invitation: "Invitation", password: "Password" },
  wayHints: {
    invitation: "The person gets a link and chooses a password.",
    password: "Callsheet creates a password and shows it once. You pass it on.",
  },
  tenant: "Tenant",
  tenantHint: "Slug of the tenant.",
  email: "E-mail address",
  name: "Name",
  role: "Role",
  invite: "Invite",
  create: "Create user",
  invited: "The invitation is being sent",
  invitedText: (email: string) => `An e-mail with the link is sent to ${email}.`,
  linkTitle: "Send this link",
  linkText: (email: string) =>
    `This installation sends no e-mail, so give this link to ${email} yourself. It is shown only once and works once.`,
  link: "Link",
  createdTitle: "The user is created",
  createdText: (email: string) => `Give this password to ${email} over a secure channel. It is shown only once.`,
  password: "Password",
};

export const userTexts = {
  back: "All users",
  notFound: "There is no such user",
  tabs: "Sections of the user",
  wallet: "Wallet",
  keys: "API keys",
  sessions: "Sessions",
  in: "in",
  created: "created",
  auditLog: "Audit log",
  actions: "Actions",
  credit: "Add tokens",
  debit: "Take tokens back…",
  role: "Change role…",
  reset: "Create password link…",
  disable: "Disable…",
  enable: "Enable",
  keep: "Cancel",
  disableTitle: (email: string) => `Disable ${email}?`,
  disableText:
    "The user is signed out at once, and the keys are refused. Active jobs continue and are settled. You can enable the user again.",
  disableIt: "Disable",
  wasDisabled: (email: string) => `${email} is disabled and signed out.`,
  wasEnabled: (email: string) => `${email} can sign in again.`,
  resetTitle: "Create a link to set a new password?",
  resetText: (email: string) =>
    `Earlier links of ${email} stop working. When the link is used, all sessions and keys of the user end.`,
  resetIt: "Create link",
  resetDone: "Send this link",
  resetDoneText: (email: string) =>
    `Give the link to ${email} over a secure channel. It works once and is shown only once.`,
  link: "Link",
  roleTitle: (email: string) => `Role of ${email}`,
  roleText: "A user who becomes an operator or viewer loses all keys and sessions.",
  newRole: "Role",
  changeRole: "Change role",
  roleChanged: (email: string, role: string) => `The role of ${email} is now ${role}.`,
};

export const userKeysTexts = {
  none: "No API keys",
  noneText: "The user creates keys on the account page.",
};

export const userSessionsTexts = {
  endAll: "Sign out everywhere",
  endAllTitle: (email: string) => `Sign ${email} out everywhere?`,
  endAllText: "Every browser of the user must sign in again. API keys keep working.",
  none: "No browser is signed in",
};
