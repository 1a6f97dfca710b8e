"""Where the settings lead a route: what a reservation pins of them, and what is missing."""

import hashlib
from collections.abc import Collection, Mapping
from typing import assert_never

from guards.canonical import Json, digest
from guards.delivery.registry import Provider, Route
from guards.delivery.world import Endpoint
from resources.providers.settings import ProviderSettings


def endpoints_of(routes: Collection[Route], settings: ProviderSettings) -> Mapping[Route, Endpoint]:
    return {route: endpoint_of(route, settings) for route in routes}


def endpoint_of(route: Route, settings: ProviderSettings) -> Endpoint:
    """Addresses go in as their digest, since one may hold a secret; tokens and passwords not at all, so that they can be renewed."""
    where: dict[str, Json] = {"provider": route.provider.value}
    match route.provider:
        case Provider.SLACK:
            if settings.slack is None:
                return _missing("slack")
            where["base_url"] = settings.slack.base_url
        case Provider.WEBHOOK:
            endpoint = settings.webhooks.get(route.address)
            if endpoint is None:
                return Endpoint(missing=f"the settings of this watch have no webhook {route.address}")
            where["url_sha256"] = hashlib.sha256(endpoint.url.encode()).hexdigest()
        case Provider.SMTP:
            if settings.smtp is None:
                return _missing("smtp")
            where |= {"host": settings.smtp.host, "port": settings.smtp.usual_port, "sender": settings.smtp.sender}
        case Provider.FILE:
            if settings.file_provider_dir is None:
                return _missing("file_provider_dir")
            where["directory"] = str(settings.file_provider_dir)
        case _:
            assert_never(route.provider)
    return Endpoint(config_sha256=digest(where))


def _missing(what: str) -> Endpoint:
    return Endpoint(missing=f"the settings of this watch have no {what}")
