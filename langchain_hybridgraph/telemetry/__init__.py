"""Report searches to sinks, such as logs.

>>> from langchain_hybridgraph.telemetry import LogSink, add_sink, remove_sink
>>> sink = LogSink()
>>> _ = add_sink(sink)
>>> remove_sink(sink)
"""

from langchain_hybridgraph.telemetry.dispatch import Delivery as Delivery
from langchain_hybridgraph.telemetry.dispatch import add_sink as add_sink
from langchain_hybridgraph.telemetry.dispatch import flush as flush
from langchain_hybridgraph.telemetry.dispatch import remove_sink as remove_sink
from langchain_hybridgraph.telemetry.events import Event as Event
from langchain_hybridgraph.telemetry.events import Search as Search
from langchain_hybridgraph.telemetry.events import SearchEnded as SearchEnded
from langchain_hybridgraph.telemetry.events import Sink as Sink
from langchain_hybridgraph.telemetry.events import StageEnded as StageEnded
from langchain_hybridgraph.telemetry.sinks import LogSink as LogSink
from langchain_hybridgraph.telemetry.sinks import OpenTelemetrySink as OpenTelemetrySink
from langchain_hybridgraph.telemetry.sinks import PrometheusSink as PrometheusSink
