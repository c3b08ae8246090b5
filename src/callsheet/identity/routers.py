"""All routes of the identity room."""

from __future__ import annotations

from callsheet.identity.accounts.deletion import UserDeletion
from callsheet.identity.accounts.management_routes import (
    tenant_management_router,
    user_credential_router,
    user_management_router,
)
from callsheet.identity.audit_log_routes import audit_router
from callsheet.identity.links.link_pages import link_page_router
from callsheet.identity.links.link_routes import admin_link_router, link_router
from callsheet.identity.room import IdentityRoom
from callsheet.identity.routes import StorageOf, account_router, key_router, session_list_router, session_router
from callsheet.plumbing.http.routing import Router
from callsheet.settings import Settings


def identity_routers(
    identity: IdentityRoom, settings: Settings, storage_of: StorageOf, deletion: UserDeletion
) -> list[Router]:
    authentication = identity.authentication
    return [
        session_router(identity.sessions, identity.one_time_links, authentication, settings, storage_of),
        session_list_router(identity.sessions, authentication, settings),
        key_router(identity.keys, authentication),
        link_router(identity.links, authentication),
        link_page_router(identity.links),
        account_router(identity.accounts, authentication),
        user_management_router(identity.management, deletion, authentication),
        user_credential_router(identity.management, authentication),
        tenant_management_router(identity.accounts, identity.management, authentication),
        admin_link_router(identity.links, authentication),
        audit_router(identity.audit, authentication),
    ]
