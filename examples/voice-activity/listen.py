"""Prints when somebody speaks in a 16 kHz mono WAV file, chunk by chunk as a live stream would.

    pip install tritonclient[grpc]
    python examples/voice-activity/listen.py speech.wav --host localhost:8001
"""

from __future__ import annotations

import argparse
import wave

import numpy as np
import tritonclient.grpc as triton

RATE = 16_000
CHUNK = 512
CONTEXT = 64
THRESHOLD = 0.5


class Listener:
    """One stream: a sequence of the model `silero_vad`. Give it 512 samples at a time."""

    def __init__(self, client: triton.InferenceServerClient, sequence_id: int) -> None:
        self._client = client
        self._sequence_id = sequence_id
        self._is_started = False
        self._context = np.zeros(CONTEXT, np.float32)

    def hear(self, chunk: np.ndarray, *, is_last: bool = False) -> float:
        """How likely `chunk`, FP32 samples from -1 to 1, holds speech."""
        samples = np.concatenate([self._context, chunk]).astype(np.float32)
        self._context = samples[-CONTEXT:]
        sound = triton.InferInput("input", [1, CONTEXT + CHUNK], "FP32")
        sound.set_data_from_numpy(samples[np.newaxis])
        rate = triton.InferInput("sr", [1], "INT64")
        rate.set_data_from_numpy(np.array([RATE], np.int64))
        result = self._client.infer(
            "silero_vad",
            [sound, rate],
            sequence_id=self._sequence_id,
            sequence_start=not self._is_started,
            sequence_end=is_last,
        )
        self._is_started = True
        return float(result.as_numpy("output")[0, 0])


def read_chunks(path: str) -> list[np.ndarray]:
    with wave.open(path) as sound:
        if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (RATE, 1, 2):
            raise SystemExit(f"{path} is not {RATE} Hz, mono, 16 bits")
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2") / 32768
    whole = np.pad(samples, (0, -len(samples) % CHUNK))
    return np.split(whole, len(whole) // CHUNK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--host", default="localhost:8001", help="default: %(default)s")
    arguments = parser.parse_args()
    chunks = read_chunks(arguments.file)
    listener = Listener(triton.InferenceServerClient(arguments.host), sequence_id=1)
    is_speech = False
    for number, chunk in enumerate(chunks):
        likelihood = listener.hear(chunk, is_last=number == len(chunks) - 1)
        if (likelihood >= THRESHOLD) != is_speech:
            is_speech = not is_speech
            what = "speech" if is_speech else "silence"
            print(f"{number * CHUNK / RATE:7.2f} s  {what}  ({likelihood:.2f})")


if __name__ == "__main__":
    main()
