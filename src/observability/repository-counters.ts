import type { MetricFamily } from './exposition.js';

/** What became of polls and downloads of model repositories, as `nereid_repository_*`. */
export class RepositoryCounters {
  polls = 0;
  failedPolls = 0;
  /** Seconds of all polls' looks together. */
  pollSecs = 0;
  lastPollSecs = 0;
  downloads = 0;
  downloadedBytes = 0;
  failedStoreRequests = 0;

  families(): readonly MetricFamily[] {
    const { polls, failedPolls, pollSecs, lastPollSecs } = this;
    const { downloads, downloadedBytes, failedStoreRequests } = this;
    return [
      counter('polls_total', 'Number of looks at a model repository', polls),
      counter('poll_failures_total', 'Number of polls that could not be done', failedPolls),
      counter('poll_duration_seconds_total', 'Cumulative duration of polls', pollSecs),
      gauge('last_poll_duration_seconds', 'Duration of the last poll', lastPollSecs),
      counter('downloads_total', 'Number of files fetched from a store', downloads),
      counter('downloaded_bytes_total', 'Bytes fetched from a store', downloadedBytes),
      counter(
        'store_failures_total',
        'Number of requests to a store that failed after their retries',
        failedStoreRequests,
      ),
    ];
  }
}

function counter(name: string, help: string, value: number): MetricFamily {
  return family('counter', name, help, value);
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return family('gauge', name, help, value);
}

function family(
  kind: 'counter' | 'gauge',
  name: string,
  help: string,
  value: number,
): MetricFamily {
  return { kind, name: `nereid_repository_${name}`, help, samples: () => [{ labels: {}, value }] };
}
