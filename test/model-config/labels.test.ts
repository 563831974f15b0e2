import { describe, expect, it } from 'vitest';
import { isInsideDirectory, labelFilePath, parseLabels } from '../../src/model-config/labels.js';

describe('parseLabels', () => {
  it.each([
    ['', []],
    ['cat\ndog', ['cat', 'dog']],
    ['cat\ndog\n', ['cat', 'dog']],
    ['cat\r\ndog\r\n', ['cat', 'dog']],
    ['cat\n\ndog\n', ['cat', '', 'dog']],
    ['\n', ['']],
    ['cat\n\n', ['cat', '']],
    [' a cat \n', [' a cat ']],
    ['\uFEFFcat\n', ['cat']],
  ])('reads %j as %j', (text, labels) => {
    expect(parseLabels(text)).toEqual(labels);
  });
});

describe('labelFilePath', () => {
  it.each([
    ['labels.txt', '/models/m/labels.txt'],
    ['a/../labels.txt', '/models/m/labels.txt'],
    ['..labels', '/models/m/..labels'],
  ])('resolves %s below the model', (name, path) => {
    expect(labelFilePath('/models/m', name)).toBe(path);
  });

  it.each([
    '../labels.txt',
    'a/../../labels.txt',
    '/etc/passwd',
    '/models/m/labels.txt',
    '.',
    '..',
    '../m2/x',
  ])('refuses %s', (name) => {
    expect(() => labelFilePath('/models/m', name)).toThrow(
      `label file path '${name}' is outside model directory`,
    );
  });
});

describe('isInsideDirectory', () => {
  it.each([
    ['/a/b', '/a/b/c', true],
    ['/a/b/', '/a/b/c/d', true],
    ['/a/b', '/a/b', false],
    ['/a/b', '/a/bc', false],
    ['/a/b', '/a', false],
  ])('of %s and %s is %s', (directory, file, isInside) => {
    expect(isInsideDirectory(directory, file)).toBe(isInside);
  });
});
