-- Logins are in the audit log for a while only, unlike what changed something.
CREATE INDEX audit_logs_logins ON audit_logs (at) WHERE action LIKE 'user.login%';
