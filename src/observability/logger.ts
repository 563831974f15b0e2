/**
 * The server's log. Texts may hold what users sent: the logger escapes them, so that a line is
 * always one event. Levels change while the server runs (`/v2/logging`).
 */
export interface Logger {
  error(message: string): void;
  warning(message: string): void;
  info(message: string): void;
  /** Written where `--log-verbose` is at least `level` (1 or more). */
  verbose(level: number, message: string): void;
  /** For callers whose message is costly to make. */
  isVerbose(level: number): boolean;
}
