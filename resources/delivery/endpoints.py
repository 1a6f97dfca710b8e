"""Where the settings lead a route: what a reservation pins of them, and what is missing. And by what evidence a watch's reminders go."""

import hashlib
from collections.abc import Collection, Mapping
from typing import assert_never

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from guards.canonical import Json, digest
from guards.delivery.registry import Provider, Route
from guards.delivery.world import Endpoint
from resources.delivery.route import CheckInFile, CheckInSource, CheckInTable
from resources.providers.settings import ProviderSettings, SmtpEndpoint, WebhookEndpoint


def endpoints_of(routes: Collection[Route], settings: ProviderSettings) -> Mapping[Route, Endpoint]:
    return {route: endpoint_of(route, settings) for route in routes}


def endpoint_of(route: Route, settings: ProviderSettings) -> Endpoint:
    """Where it leads, and what is believed of its answers. Addresses go in as their digest, since one may hold a secret; tokens and
    passwords not at all, so that they can be renewed; nor how long is waited."""
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
            where |= _webhook(endpoint)
        case Provider.SMTP:
            if settings.smtp is None:
                return _missing("smtp")
            where |= _smtp(settings.smtp)
        case Provider.FILE:
            if settings.file_provider_dir is None:
                return _missing("file_provider_dir")
            where["directory"] = str(settings.file_provider_dir)
        case _:
            assert_never(route.provider)
    return Endpoint(config_sha256=digest(where))


def check_ins_sha256(source: CheckInSource) -> str:
    """Of where check-ins are read, "" for nowhere. Its password is not in it: that can be renewed."""
    match source:
        case None:
            return ""
        case CheckInFile():
            return digest({"file": str(source.path)})
        case CheckInTable():
            try:
                where = make_url(source.url).render_as_string(hide_password=True).replace(":***@", "@")
            except (ArgumentError, ValueError):
                where = "no address"
            return digest({"postgres": where, "table": source.table})
        case _:
            assert_never(source)


def _webhook(endpoint: WebhookEndpoint) -> dict[str, Json]:
    return {
        "url_sha256": _sha256(endpoint.url),
        "lookup_url_sha256": _sha256(endpoint.lookup_url),
        "rejecting_statuses": sorted(endpoint.rejecting_statuses),
        "must_echo_key": endpoint.must_echo_key,
        "lookup_is_authoritative": endpoint.lookup_is_authoritative,
        "ca_file": str(endpoint.ca_file or ""),
        "allow_cleartext": endpoint.allow_cleartext,
    }


def _smtp(endpoint: SmtpEndpoint) -> dict[str, Json]:
    return {
        "host": endpoint.host,
        "port": endpoint.usual_port,
        "sender": endpoint.sender,
        "tls": endpoint.tls,
        "user": endpoint.user,
        "message_id_domain": endpoint.domain,
        "ca_file": str(endpoint.ca_file or ""),
        "allow_cleartext": endpoint.allow_cleartext,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _missing(what: str) -> Endpoint:
    return Endpoint(missing=f"the settings of this watch have no {what}")
