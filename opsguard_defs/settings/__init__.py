"""Settings: what `opsguard.toml` and the environment say, checked whole before anything is contacted."""

from opsguard_defs.settings.delivery_watch import DeliveryWatch
from opsguard_defs.settings.load import config_path, home_path, load_settings
from opsguard_defs.settings.model import Settings, SlackSettings, Watch
from opsguard_defs.settings.spool_watch import SpoolWatch

__all__ = ["DeliveryWatch", "Settings", "SlackSettings", "SpoolWatch", "Watch", "config_path", "home_path", "load_settings"]
