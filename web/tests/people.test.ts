import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/types";
import { mayOpen, OPERATE, operatePlaces } from "@/frame/navigation";
import { detailsOf, pageOf, subjectName } from "@/pages/operate/audit/entries";
import { validAuditSearch } from "@/pages/operate/audit/filters";
import { worstFirst } from "@/pages/operate/health/findings";
import { finishedPools, poolState, totalOf } from "@/pages/operate/ledger/audits";
import { found, type Setting, sections, valueText } from "@/pages/operate/settings/found";
import { changesOf as quotaChanges } from "@/pages/operate/tenant/quotas";
import { changesOf as weightChanges } from "@/pages/operate/tenant/weight";
import { invitationState } from "@/pages/operate/users/invitations";
import { actorName } from "@/parts/actor-name";
import { formatBytes, parseBytes } from "@/parts/bytes";
import { localOf, utcOf } from "@/parts/local-times";
import { slugOf } from "@/parts/slugs";
import { freshPassword } from "@/parts/user/passwords";
import { rolesOf } from "@/parts/user/roles";
import { amountOf, amountProblem, balanceAfter } from "@/parts/wallet/amounts";
import { otherPayer, payerOf } from "@/parts/wallet/payer";
import { amountTexts } from "@/texts/wallets";

describe("which pages a role opens", () => {
  it("shows a tenant admin the tenants and users only", () => {
    expect(operatePlaces("tenant_admin").map((place) => place.to)).toEqual(["/operate/tenants", "/operate/users"]);
    expect(mayOpen("tenant_admin", "/operate/users/1")).toBe(true);
    expect(mayOpen("tenant_admin", "/operate")).toBe(false);
    expect(mayOpen("tenant_admin", "/operate/usersettings")).toBe(false);
  });
  it("shows operators and viewers everything, and users nothing", () => {
    expect(operatePlaces("viewer")).toBe(OPERATE);
    expect(mayOpen("operator", "/operate/anything")).toBe(true);
    expect(mayOpen("user", "/operate/users")).toBe(false);
  });
  it("lets a tenant admin give no role that sees other tenants", () => {
    expect(rolesOf("tenant_admin")).toEqual(["user", "tenant_admin"]);
    expect(rolesOf("viewer")).toEqual([]);
  });
});

describe("bytes", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1_000, "1 kB"],
    [999_999, "1 MB"],
    [20_000_000_000, "20 GB"],
  ])("writes %s as %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));
  it.each([
    ["20 GB", 20_000_000_000],
    ["1.5kb", 1_500],
    ["1 GiB", 1_073_741_824],
    ["17", 17],
    ["", null],
    ["many", null],
    ["-5 GB", null],
    ["9999999 PB", null],
  ])("reads %s as %s", (text, bytes) => expect(parseBytes(text)).toBe(bytes));
});

describe("forms", () => {
  it("makes a slug of a name", () => expect(slugOf("  Ácme Studios (EU)! ")).toBe("acme-studios-eu"));
  it.each([
    ["1,200", 1200],
    ["1 200", 1200],
    ["0", null],
    ["-3", null],
    ["1.5", null],
    ["99999999999999999", null],
  ])("reads %s as %s tokens", (text, amount) => expect(amountOf(text)).toBe(amount));
  it("takes back no more than the balance, as far as it is known", () => {
    expect(amountProblem("1,001", 1000, "debit")).toBe(amountTexts.tooMany("1,000 tokens"));
    expect(amountProblem("1,000", 1000, "debit")).toBe(false);
    expect(amountProblem("1,001", undefined, "debit")).toBe(false);
    expect(amountProblem("1,001", 1000, "credit")).toBe(false);
    expect(amountProblem("many", 1000, "debit")).toBe(amountTexts.amountProblem);
    expect(amountProblem(" ", 1000, "debit")).toBe(false);
    expect([balanceAfter(1000, 200, "credit"), balanceAfter(1000, 200, "debit")]).toEqual([1200, 800]);
    expect(balanceAfter(1000, null, "debit")).toBe(1000);
  });
  it("says that users pay until a tenant does", () => {
    expect([payerOf(undefined), payerOf({}), payerOf({ paid_by: "tenant" })]).toEqual(["user", "user", "tenant"]);
    expect([otherPayer("user"), otherPayer("tenant")]).toEqual(["tenant", "user"]);
  });
  it("makes a long password that differs each time", () => {
    const password = freshPassword();
    expect(password).toMatch(/^([a-zA-Z2-9]{5}-){3}[a-zA-Z2-9]{5}$/);
    expect(freshPassword()).not.toBe(password);
  });
  it("sends only what changed of a weight", () => {
    const weight = { tenant: "a", weight: 1, max_running: null, max_running_per_user: 2, running: 0 };
    expect(weightChanges(weight, { weight: "1", max_running: "4", max_running_per_user: "" })).toEqual({
      changes: { max_running: 4, max_running_per_user: null },
      problems: {},
    });
    expect(Object.keys(weightChanges(weight, { weight: "0", max_running: "1.5" }).problems)).toEqual([
      "weight",
      "max_running",
    ]);
  });
  it("does not take a rounded size for a change", () => {
    const quotas = { changed: { tenant_storage_bytes: 20_000_000_001 } } as unknown as Schemas["TenantQuotas"];
    expect(quotaChanges(quotas, { tenant_storage_bytes: "20 GB" }).changes).toEqual({});
    expect(quotaChanges(quotas, { tenant_storage_bytes: "", keys_per_user: "1,000" }).changes).toEqual({
      tenant_storage_bytes: null,
      keys_per_user: 1000,
    });
    expect(quotaChanges(quotas, { keys_per_user: "x" }).problems).toHaveProperty("keys_per_user");
  });
});

describe("invitations", () => {
  const invitation = { expires_at: "2026-01-02T00:00:00Z" } as Schemas["Invitation"];
  it.each([
    [{}, "open"],
    [{ accepted_at: "2026-01-01T00:00:00Z" }, "accepted"],
    [{ revoked_at: "2026-01-01T00:00:00Z" }, "revoked"],
    [{ mail_error: "refused" }, "failed"],
    [{ expires_at: "2025-12-31T00:00:00Z" }, "expired"],
  ])("%j is %s", (changes, state) =>
    expect(invitationState({ ...invitation, ...changes }, new Date("2026-01-01T12:00:00Z"))).toBe(state),
  );
});

describe("the audit log", () => {
  it("keeps the filters that are usable", () => {
    expect(
      validAuditSearch({ actor: " a@b.c ", action: "", since: "2026-01-01T00:00:00Z", until: "soon", other: 1 }),
    ).toEqual({ actor: "a@b.c", since: "2026-01-01T00:00:00.000Z" });
  });
  it("shows a time in the reader's zone and takes it back", () => {
    const utc = "2026-06-01T10:30:00.000Z";
    expect(utcOf(localOf(utc))).toBe(utc);
    expect(localOf(undefined)).toBe("");
  });
  it("names people and details in words", () => {
    const entry = {
      actor: "operator",
      details: { amount: 5, reason: "Invoice 7", scopes: ["read"], empty: null },
    } as unknown as Schemas["AuditEntry"];
    expect(actorName(entry)).toBe("Command line");
    expect(actorName({ ...entry, actor_email: "a@b.c" })).toBe("a@b.c");
    expect(actorName({ actor: "admin:01a1", actor_email: null })).toBe("admin:01a1");
    expect(
      actorName({ actor: "admin:01a1", actor_email: "deleted-01a1e0b2-0000-7000-8000-000000abcdef@users.invalid" }),
    ).toBe("Deleted user …abcdef");
    const id = "01a1e0b2-0000-7000-8000-000000000001";
    expect(detailsOf({ details: { user_id: id, filter: { user_id: id } }, names: { [id]: "ann@b.c" } })).toBe(
      'user: ann@b.c, filter: {"user_id":"ann@b.c"}',
    );
    expect(subjectName({ subject_id: "7", subject_name: "demo, production" })).toBe("demo, production");
    expect(subjectName({ subject_id: "gpu-1", subject_name: null })).toBe("gpu-1");
    expect(pageOf({ action: "user.login_failed", subject_type: "user", subject_id: "unknown" })).toBeNull();
    expect(pageOf({ action: "user.invite", subject_type: "user", subject_id: id })).toBeNull();
    expect(pageOf({ action: "fleet.create", subject_type: "fleet", subject_id: "7" })).toEqual({
      to: "/operate/fleets/$id",
      params: { id: "7" },
    });
    expect(detailsOf(entry)).toBe('amount: 5, reason: Invoice 7, scopes: ["read"]');
  });
});

describe("the ledger", () => {
  const done = { pool: "pool_1", started_at: "x", finished_at: "x", balance: 3, findings: 0 } as Schemas["PoolAudit"];
  const waiting = { pool: "pool_2" } as Schemas["PoolAudit"];
  const audit = { pools: [done, waiting] } as Schemas["LedgerAudit"];
  it("adds up the pools that are done", () => {
    expect([finishedPools(audit), totalOf(audit, "balance"), totalOf(audit, "held")]).toEqual([1, 3, null]);
    expect([
      poolState(done).tone,
      poolState(waiting).tone,
      poolState({ ...done, findings: 2 }).tone,
      poolState({ ...done, error: "away" }).tone,
    ]).toEqual(["ok", "plain", "bad", "warn"]);
  });
});

describe("settings", () => {
  const setting = (name: string, changes: Partial<Setting> = {}): Setting => ({
    name,
    variable: name.toUpperCase(),
    value: 1,
    default: 1,
    source: null,
    is_secret: false,
    unit: null,
    description: "A number.",
    ...changes,
  });
  it("finds every word, and what was changed", () => {
    const all = [setting("server.port"), setting("server.host", { source: "the environment" }), setting("home")];
    expect(found(all, "PORT server", "all").map((each) => each.name)).toEqual(["server.port"]);
    expect(found(all, "", "changed").map((each) => each.name)).toEqual(["server.host"]);
    expect(sections(all).map(([name, items]) => [name, items.length])).toEqual([
      ["server", 2],
      ["general", 1],
    ]);
  });
  it.each([
    [true, {}, "yes"],
    [null, {}, "Not set"],
    ["********", { is_secret: true }, "Set, not shown"],
    [1048576, { unit: "bytes" }, "1,048,576 bytes (1 MB)"],
    [[], {}, "Empty"],
    [["a", "b"], {}, "a, b"],
    [{ a: 1 }, {}, '{"a":1}'],
  ])("writes %j as words", (value, changes, text) => expect(valueText(value, setting("a", changes))).toBe(text));
});

describe("health", () => {
  it("shows problems first", () => {
    const findings = ["ok", "problem", "warning"].map((status) => ({
      part: "a",
      status,
      message: "",
      advice: "",
    })) as Schemas["HealthFinding"][];
    expect(worstFirst(findings).map((each) => each.status)).toEqual(["problem", "warning", "ok"]);
  });
});
