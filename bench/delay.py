"""A TCP proxy that makes every byte arrive later, in a process of its own: a far partner on one machine.

    python -m bench.delay --to PORT --milliseconds 20 --ready FILE

The delay is that of a round trip: half of it each way. Nothing else is slowed: bytes on their way are not limited.
"""

import argparse
import asyncio
from pathlib import Path


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, seconds: float) -> None:
    """Every piece is written `seconds` after it came."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            due, piece = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                sink.close()
                return
            sink.write(piece)
            await sink.drain()

    delivering = asyncio.create_task(deliver())
    try:
        while piece := await source.read(256 * 1024):
            queue.put_nowait((loop.time() + seconds, piece))
    except ConnectionError:
        pass
    queue.put_nowait((loop.time() + seconds, b""))
    await asyncio.gather(delivering, return_exceptions=True)


async def serve(to_port: int, seconds: float, ready: Path) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", to_port)
        await asyncio.gather(_carry(reader, there_writer, seconds / 2), _carry(there_reader, writer, seconds / 2))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    arriving = ready.with_name(ready.name + ".new")
    arriving.write_text(str(server.sockets[0].getsockname()[1]))
    arriving.replace(ready)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=int, required=True)
    parser.add_argument("--milliseconds", type=float, required=True)
    parser.add_argument("--ready", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.to, given.milliseconds / 1000, given.ready))
