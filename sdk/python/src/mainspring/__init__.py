"""Worker and client for the Mainspring workflow scheduler. Standard library only."""

from .client import Client, Run
from .context import TaskContext
from .errors import ApiError, MainspringError, PermanentError, RunFailed, TaskError, Unreachable
from .worker import Worker

__all__ = [
    "ApiError",
    "Client",
    "MainspringError",
    "PermanentError",
    "Run",
    "RunFailed",
    "TaskContext",
    "TaskError",
    "Unreachable",
    "Worker",
]
__version__ = "0.1.0"
