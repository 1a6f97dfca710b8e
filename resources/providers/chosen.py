"""The providers that the settings name. Opening one contacts nobody."""

from collections.abc import Mapping

from guards.delivery.registry import Provider as Named
from resources.providers.file import FileProvider
from resources.providers.interface import Provider
from resources.providers.settings import ProviderSettings
from resources.providers.slack import SlackProvider
from resources.providers.smtp import SmtpProvider
from resources.providers.webhook import WebhookProvider


def open_providers(settings: ProviderSettings) -> Mapping[Named, Provider]:
    """Only those that are configured: a route to another one is a gap that a person closes in the settings."""
    opened: dict[Named, Provider] = {}
    if settings.slack is not None:
        opened[Named.SLACK] = SlackProvider(settings.slack)
    if settings.webhooks:
        opened[Named.WEBHOOK] = WebhookProvider(settings.webhooks)
    if settings.smtp is not None:
        opened[Named.SMTP] = SmtpProvider(settings.smtp)
    if settings.file_provider_dir is not None:
        opened[Named.FILE] = FileProvider(settings.file_provider_dir)
    return opened
